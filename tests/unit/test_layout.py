"""Rooms stay small, names stand once, and only Delta's own code asks for its format."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = (ROOT / "resources/floecat", ROOT / "floecat_rest", ROOT / "floecat_assets")

MOST_MODULES = 22
MOST_LINES = 500
MOST_IMPORTS = 30
FORMATS = {"iceberg", "delta"}
FORMAT_MODULES = {"resources/floecat/entries/formats.py"}


def modules(*packages: Path) -> Iterator[tuple[str, ast.Module]]:
    for package in packages:
        for path in sorted(package.rglob("*.py")):
            yield str(path.relative_to(ROOT)), ast.parse(path.read_text())


def test_no_folder_has_too_many_modules() -> None:
    counts: dict[Path, int] = defaultdict(int)
    for package in PACKAGES:
        for path in package.rglob("*.py"):
            counts[path.parent] += path.name != "__init__.py"
    assert {str(folder): count for folder, count in counts.items() if count > MOST_MODULES} == {}


def test_no_module_is_too_long() -> None:
    lines = {path: len((ROOT / path).read_text().splitlines()) for path, _ in modules(*PACKAGES)}
    assert {path: count for path, count in lines.items() if count > MOST_LINES} == {}


def test_the_composition_root_imports_packages_not_their_parts() -> None:
    root = ast.parse((ROOT / "resources/floecat/runtime.py").read_text())
    assert sum(isinstance(node, ast.Import | ast.ImportFrom) for node in root.body) <= MOST_IMPORTS


def test_no_public_class_has_the_name_of_another() -> None:
    places: dict[str, list[str]] = defaultdict(list)
    for path, tree in modules(*PACKAGES):
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(path)
    assert {name: where for name, where in places.items() if len(where) > 1} == {}


def test_nothing_outside_asks_which_format_a_table_has() -> None:
    asked = [
        f"{path}:{node.lineno}"
        for path, tree in modules(ROOT / "resources/floecat")
        if not path.startswith("resources/floecat/delta/") and path not in FORMAT_MODULES
        for node in ast.walk(tree)
        if isinstance(node, ast.Compare) and asks_for_format(node)
    ]
    assert asked == []


def asks_for_format(node: ast.Compare) -> bool:
    sides = [node.left, *node.comparators]
    named = any("format" in ast.unparse(side).rpartition(".")[2] for side in sides)
    return named and any(isinstance(side, ast.Constant) and side.value in FORMATS for side in sides)
