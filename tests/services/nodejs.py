"""Node.js from a Python package, with the npm packages of a folder."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

__all__ = ["NodeProject"]

_INSTALL_S = 120


class NodeProject:
    """A copy of a folder with `package.json` and `package-lock.json`, and their packages installed in it."""

    def __init__(self, source: Path, folder: Path) -> None:
        """Copies and installs.

        Raises:
            RuntimeError: npm could not install; with what it said.
        """
        self.folder = folder
        shutil.copytree(source, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("node_modules"))
        # The npm of the package runs the first `node` of the PATH, which must be its own.
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
        self._environ = os.environ | {"PATH": path}
        done = subprocess.run(
            [str(Path(sys.executable).with_name("npm")), "ci", "--no-fund", "--no-audit", "--ignore-scripts"],
            cwd=folder,
            env=self._environ,
            capture_output=True,
            text=True,
            timeout=_INSTALL_S,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(f"npm could not install {source.name} from its registry:\n{done.stderr}")

    def start(self, script: str, *arguments: str) -> subprocess.Popen[str]:
        """Starts a script that reads its standard input and writes its standard output, line by line."""
        return subprocess.Popen(
            [str(Path(sys.executable).with_name("node")), script, *arguments],
            cwd=self.folder,
            env=self._environ,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
