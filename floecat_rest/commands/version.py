"""`floecat version`."""

from __future__ import annotations

import floecat
from floecat_rest.commands.console import out

__all__ = ["version"]


def version() -> None:
    """Show the version."""
    out.print(f"floecat {floecat.__version__}")
