"""What commands that work on the store directly are asked by, and about which catalog."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated
from uuid import UUID

import typer

from floecat.settings import Settings

if TYPE_CHECKING:
    from floecat.entries.calls import Call
    from floecat.runtime import Kernel

__all__ = ["AccountOption", "CatalogOption", "open_call"]

AccountOption = Annotated[
    UUID | None,
    typer.Option(
        "--account",
        help="Account of the catalogs, as in the tokens of its users. Default: that of auth-mode=dev.",
    ),
]
CatalogOption = Annotated[
    str | None, typer.Option("--catalog", help="Name of the catalog. Default: the default catalog.")
]

_PRINCIPAL = "command-line"


@contextmanager
def open_call(settings: Settings, catalog: str | None, account: UUID | None) -> Iterator[tuple[Kernel, Call]]:
    """An open kernel, and a call on a catalog, for a block of code.

    Raises:
        NoSuchWarehouseError: there is no such catalog.
    """
    from floecat.runtime import kernel

    gateway = settings.gateway
    with kernel(settings) as opened:
        yield (
            opened,
            opened.calls.open_as_operator(
                _PRINCIPAL, account or gateway.default_account_id, catalog or gateway.default_prefix
            ),
        )
