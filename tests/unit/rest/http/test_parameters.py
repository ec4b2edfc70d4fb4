from __future__ import annotations

from typing import Annotated, Any

import pytest
from litestar import Litestar, get
from litestar.handlers import HTTPRouteHandler
from litestar.params import FromPath, FromQuery, QueryParameter

from floecat.errors import BadRequestError
from floecat_rest.http.options import STRICT
from floecat_rest.http.parameters import Parameters

ABSENT = {"page_size": None, "force": False, "mode": "all", "states": None}


def parameters(**opt: bool) -> Parameters:
    @get("/{table:str}", opt=opt, sync_to_thread=False)
    def read(
        table: FromPath[str],
        page_size: Annotated[int | None, QueryParameter(name="pageSize", ge=1)] = None,
        force: FromQuery[bool] = False,
        mode: FromQuery[str] = "all",
        states: Annotated[list[str] | None, QueryParameter(name="state")] = None,
    ) -> None:
        """Answers."""

    handlers: list[Any] = Litestar([read], openapi_config=None).routes[0].route_handlers  # type: ignore[union-attr]
    return Parameters(next(each for each in handlers if isinstance(each, HTTPRouteHandler)))


@pytest.mark.parametrize(
    ("query", "found"),
    [
        (b"", {}),
        (b"pageSize=7&mode=%C3%A4%20b", {"page_size": 7, "mode": "ä b"}),
        (b"mode=", {"mode": ""}),
        (b"force=true", {"force": True}),
        (b"force=0", {"force": False}),
        (b"state=a&state=b", {"states": ["a", "b"]}),
        (b"state=a", {"states": ["a"]}),
        (b"unknown=1&unknown=2&pagesize=3", {}),
    ],
)
def test_values_have_the_types_of_the_handler(query, found):
    assert parameters().read("GET", {"table": "t"}, query) == {"table": "t"} | ABSENT | found


@pytest.mark.parametrize(
    ("query", "message"),
    [
        (b"pageSize=0", "Invalid parameter pageSize: must be a whole number, at least 1"),
        (b"pageSize=x", "Invalid parameter pageSize: must be a whole number, at least 1"),
        (b"pageSize=", "Invalid parameter pageSize: must be a whole number, at least 1"),
        (b"force=maybe", "Invalid parameter force: must be true or false"),
        (b"mode=a&mode=a", "Invalid parameter mode: give it once"),
        (b"mode=a&m%6fde=b", "Invalid parameter mode: give it once"),
    ],
)
def test_what_cannot_be_read_is_refused_by_name(query, message):
    with pytest.raises(BadRequestError, match=message):
        parameters().read("GET", {"table": "t"}, query)


def test_a_strict_handler_refuses_what_it_does_not_have():
    known = "it has pageSize, force, mode, state"
    with pytest.raises(BadRequestError, match=f"Unknown query parameter 'pagesize' of GET: {known}"):
        parameters(**{STRICT: True}).read("GET", {"table": "t"}, b"mode=a&pagesize=3")
