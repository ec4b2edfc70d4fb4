"""Parts that the controllers of the management API share."""

from __future__ import annotations

from typing import Annotated, Final
from uuid import UUID

from litestar import Controller
from litestar.params import QueryParameter

from floecat.errors import NotFoundError
from floecat_rest.http.options import STRICT
from floecat_rest.http.requests import CatalogRequest

__all__ = [
    "ManagementController",
    "StateFilter",
    "TableFilter",
    "listed_size",
    "path_id",
]

_LARGEST_PAGE: Final = 1_000

StateFilter = Annotated[
    list[str] | None,
    QueryParameter(name="state", description="State, as the answers have it; repeatable."),
]
TableFilter = Annotated[
    str | None, QueryParameter(description="Name that the table had, as `A:B.name` or `A.B.name`.")
]


class ManagementController(Controller):
    """A controller of the management API."""

    tags = ["Management"]
    opt = {STRICT: True}


def path_id(request: CatalogRequest, name: str, what: str) -> UUID:
    """The id in a path.

    Args:
        name: of the parameter of the path.
        what: what the id is of, for a message.

    Raises:
        NotFoundError: it is no id.
    """
    text = request.path_params[name]
    try:
        return UUID(text)
    except ValueError:
        raise NotFoundError(f"{what} does not exist: {text[:80]}") from None


def listed_size(page_size: int | None) -> int:
    """The size of a page: as asked for, within a bound."""
    return min(page_size or _LARGEST_PAGE, _LARGEST_PAGE)
