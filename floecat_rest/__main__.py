"""`python -m floecat_rest` is the `floecat` command."""

from __future__ import annotations

from floecat_rest.cli import main

__all__: list[str] = []

if __name__ == "__main__":
    main()
