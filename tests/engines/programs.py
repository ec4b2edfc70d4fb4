"""Programs of the tested engines, from Maven and from the machine, kept in a cache between runs."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

__all__ = [
    "ProgramMissingError",
    "archive",
    "cache_folder",
    "jar",
    "java_home",
    "node_modules",
    "program",
    "python_with",
]

_DOWNLOAD_S = 900
_JVM_FOLDERS = ("/usr/lib/jvm", "/opt", "/Library/Java/JavaVirtualMachines")


class ProgramMissingError(Exception):
    """A registry or a toolchain is missing; the message is a sentence that names it and how to get it."""


def cache_folder() -> Path:
    """The folder that keeps programs between runs."""
    folder = Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")).expanduser() / "floecat-tests" / "engines"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def program(name: str, how: str) -> Path:
    """The path of a program of the machine, such as `go`.

    Raises:
        ProgramMissingError: it is not on the PATH; the message ends with `how` to get it.
    """
    found = shutil.which(name)
    if found is None:
        raise ProgramMissingError(f"The program `{name}` is not on the PATH: {how}.")
    return Path(found)


def java_home(release: int) -> Path:
    """The folder of a JDK of exactly this release, such as 25.

    Raises:
        ProgramMissingError: none was found.
    """
    homes = [Path(os.environ["JAVA_HOME"])] if "JAVA_HOME" in os.environ else []
    for root in _JVM_FOLDERS:
        homes += sorted(Path(root).glob("*"))
    for home in homes:
        description = home / "release"
        if description.is_file() and re.search(rf'JAVA_VERSION="{release}\b', description.read_text()):
            return home
    raise ProgramMissingError(f"No JDK {release} was found; set JAVA_HOME to one (Debian, Temurin).")


def jar(coordinate: str) -> Path:
    """A file from Maven, such as `org.example:thing:1.0` or `org.example:thing:1.0:tar.gz`.

    Raises:
        ProgramMissingError: Maven is missing, or could not bring the file.
    """
    group, artifact, version, *rest = coordinate.split(":")
    kind = rest[0] if rest else "jar"
    classifier = f"-{rest[1]}" if len(rest) > 1 else ""
    downloads = cache_folder() / "downloads"
    target = downloads / f"{artifact}-{version}{classifier}.{kind}"
    if target.exists():
        return target
    maven = program("mvn", "Debian's package maven has it")
    downloads.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=downloads) as folder:
        done = subprocess.run(
            [
                str(maven),
                "-q",
                "-B",
                "dependency:copy",
                f"-Dartifact={coordinate}",
                f"-DoutputDirectory={folder}",
            ],
            capture_output=True,
            text=True,
            timeout=_DOWNLOAD_S,
            check=False,
        )
        made = Path(folder) / target.name
        if done.returncode or not made.exists():
            said = (done.stdout + done.stderr).strip().splitlines()
            raise ProgramMissingError(
                f"Maven could not bring {group}:{artifact}:{version}: {' '.join(said[:2])}"
            )
        made.replace(target)
    return target


def archive(coordinate: str) -> Path:
    """The folder that a `tar.gz` from Maven unpacks to; its single top folder is left out.

    Raises:
        ProgramMissingError: as `jar`.
    """
    packed = jar(coordinate)
    target = cache_folder() / "unpacked" / packed.name.removesuffix(".tar.gz")
    if target.exists():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        with tarfile.open(packed) as opened:
            opened.extractall(folder, filter="data")
        (top,) = Path(folder).iterdir()
        top.rename(target)
    return target


def python_with(name: str, *requirements: str) -> Path:
    """The Python of a virtual environment of its own, which has packages that do not go with ours.

    Args:
        name: of the environment, with the versions that are in it.
        requirements: as pip takes them.

    Raises:
        ProgramMissingError: the packages could not be installed.
    """
    target = cache_folder() / "python" / name
    python = target / "bin" / "python"
    if (target / "installed").exists():
        return python
    steps = [
        [sys.executable, "-m", "venv", "--clear", str(target)],
        [str(python), "-m", "pip", "--disable-pip-version-check", "install", "-q", *requirements],
    ]
    for step in steps:
        done = subprocess.run(step, capture_output=True, text=True, timeout=_DOWNLOAD_S, check=False)
        if done.returncode:
            said = (done.stdout + done.stderr).strip().splitlines()
            raise ProgramMissingError(f"pip could not bring {', '.join(requirements)}: {' '.join(said[-2:])}")
    (target / "installed").touch()
    return python


def node_modules(name: str, *packages: str) -> Path:
    """The folder `node_modules` of packages of npm.

    Args:
        name: of the folder in the cache, with the versions that are in it.
        packages: as npm takes them.

    Raises:
        ProgramMissingError: Node is missing, or npm could not bring the packages.
    """
    npm = program("npm", "Debian's package npm has it")
    target = cache_folder() / "node" / name
    if not (target / "installed").exists():
        target.mkdir(parents=True, exist_ok=True)
        command = [str(npm), "install", "--prefix", str(target), "--no-audit", "--no-fund"]
        command += ["--ignore-scripts", *packages]
        done = subprocess.run(command, capture_output=True, text=True, timeout=_DOWNLOAD_S, check=False)
        if done.returncode:
            said = (done.stdout + done.stderr).strip().splitlines()
            raise ProgramMissingError(f"npm could not bring {', '.join(packages)}: {' '.join(said[:2])}")
        (target / "installed").touch()
    return target / "node_modules"
