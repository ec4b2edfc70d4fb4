"""The product uses what its dependencies offer: private names change without notice."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCES = [
    path
    for folder in ("resources/floecat", "floecat_rest", "floecat_assets")
    for path in sorted((ROOT / folder).rglob("*.py"))
]
OURS = {"floecat", "floecat_rest", "floecat_assets", "__future__"}

OVERRIDDEN = {
    # uvicorn is pinned for it: a request behind another one gets a context of its own
    "floecat_rest/http/protocol.py: HttpToolsProtocol._start_asgi_task",
    # Dagster's public call takes no time, and a snapshot of the past is shown at the time of its commit
    "floecat_assets/defs/statistics/reporting.py: dagster._core.events.AssetObservationData",
}
"""Private names that the product must use, with their reasons."""


def is_private(name: str) -> bool:
    return any(part.startswith("_") and not part.endswith("__") for part in name.split("."))


def is_foreign(module: str) -> bool:
    top = module.partition(".")[0]
    return top not in OURS and top not in sys.stdlib_module_names


def imported(tree: ast.AST) -> Iterator[tuple[str, str, str | None]]:
    """Names in the module, the modules of dependencies that they come from, and their names there."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for each in node.names:
                if is_foreign(each.name):
                    yield each.asname or each.name.partition(".")[0], each.name, None
        elif isinstance(node, ast.ImportFrom) and node.module is not None and is_foreign(node.module):
            for each in node.names:
                yield each.asname or each.name, node.module, each.name


def inherited(node: ast.ClassDef, names: dict[str, tuple[str, str | None]]) -> Iterator[tuple[str, type]]:
    """The bases of a class that come from dependencies."""
    for base in node.bases:
        if isinstance(base, ast.Name) and base.id in names:
            module, name = names[base.id]
            found = getattr(import_module(module), name or "", None)
            if isinstance(found, type):
                yield base.id, found


def used(path: Path) -> Iterator[str]:
    """Private names of dependencies that a module uses."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    names: dict[str, tuple[str, str | None]] = {}
    for name, module, attribute in imported(tree):
        names[name] = module, attribute
        whole = f"{module}.{attribute}" if attribute else module
        if is_private(whole):
            yield whole
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and is_private(node.attr):
            value: ast.expr = node.value
            while isinstance(value, ast.Attribute | ast.Call):
                value = value.value if isinstance(value, ast.Attribute) else value.func
            if isinstance(value, ast.Name) and value.id in names:
                yield ast.unparse(node)
        elif isinstance(node, ast.ClassDef):
            own = {
                each.name for each in node.body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)
            }
            own |= {each.attr for each in ast.walk(node) if isinstance(each, ast.Attribute)}
            for name, base in inherited(node, names):
                yield from (f"{name}.{each}" for each in own & set(dir(base)) if is_private(each))


def test_no_private_name_of_a_dependency_is_used() -> None:
    found = {f"{path.relative_to(ROOT)}: {name}" for path in SOURCES for name in used(path)}
    assert found == OVERRIDDEN


def test_private_names_are_found(tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    module.write_text(
        "import msgspec, os\n"
        "from litestar._asgi import utils\n"
        "from msgspec import _core as core, json as codec\n"
        "from uvicorn.supervisors.multiprocess import Process as Base\n"
        "class Worker(Base):\n"
        "    def alive(self): return self._target()\n"
        "    def __init__(self): self._mine = os._exit\n"
        "codec._first; msgspec.json._second().third; msgspec.__version__; Base.target\n"
        "from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol\n"
        "class Own(HttpToolsProtocol):\n"
        "    def _unset_keepalive_if_required(self): ...\n"
    )
    assert set(used(module)) == {
        "litestar._asgi.utils",
        "msgspec._core",
        "codec._first",
        "msgspec.json._second",
        "HttpToolsProtocol._unset_keepalive_if_required",
    }
