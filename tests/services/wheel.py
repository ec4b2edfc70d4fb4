"""The built wheel in an environment of its own, as a user has it: nothing of the checkout can be imported."""

from __future__ import annotations

import subprocess
import sys
import venv
from pathlib import Path

__all__ = ["build_wheel", "install_beside_libraries", "install_with_libraries"]

ROOT = Path(__file__).parents[2]


def build_wheel(folder: Path) -> Path:
    """Builds the wheel into a folder."""
    _run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder))
    (wheel,) = folder.glob("*.whl")
    return wheel


def install_beside_libraries(wheel: Path, folder: Path) -> Path:
    """Installs only the wheel, on the libraries of this interpreter. Returns the folder of commands."""
    venv.create(folder, with_pip=False, symlinks=True)
    _pip(folder, "--no-deps", "--no-index", str(wheel))
    libraries = [path for path in sys.path if path.endswith("site-packages")]
    (site_packages,) = folder.glob("lib/python*/site-packages")
    # as plain entries of the path: the .pth files in them, which lead to the checkout, are not followed
    (site_packages / "libraries.pth").write_text("\n".join(libraries))
    return folder / "bin"


def install_with_libraries(wheel: Path, extras: str, folder: Path) -> Path:
    """Installs the wheel with all that it asks for, at tested versions. Returns the folder of commands."""
    venv.create(folder, with_pip=False, symlinks=True)
    _pip(folder, "--constraint", str(ROOT / "constraints.txt"), f"{wheel}[{extras}]")
    return folder / "bin"


def _pip(environment: Path, *arguments: str) -> None:
    python = environment / "bin" / "python"
    _run(sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", *arguments)


def _run(*command: str) -> None:
    completed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=240, check=False)
    assert completed.returncode == 0, completed.stdout + completed.stderr
