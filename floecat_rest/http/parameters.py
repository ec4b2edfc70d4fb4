"""Parameters of paths and queries, as handlers declare them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any, Final
from urllib.parse import unquote_plus

import msgspec
from litestar.params import PathParameter, QueryParameter

from floecat.errors import BadRequestError
from floecat_rest.http.options import STRICT

if TYPE_CHECKING:
    from litestar.handlers import HTTPRouteHandler
    from litestar.typing import FieldDefinition

__all__ = ["Parameters", "query_parameters"]

_LONGEST_NAME: Final = 80


def query_parameters(handler: HTTPRouteHandler) -> Iterator[tuple[str, QueryParameter, FieldDefinition]]:
    """The parameters of the query: names on the wire, and how they are declared."""
    for declared in handler.parsed_fn_signature.parameters.values():
        definition = declared.kwarg_definition
        if isinstance(definition, QueryParameter):
            yield definition.name or declared.name, definition, declared


class Parameters:
    """Reads the parameters of a handler."""

    def __init__(self, handler: HTTPRouteHandler) -> None:
        declared = handler.parsed_fn_signature.parameters
        self._path = [
            name for name, each in declared.items() if isinstance(each.kwarg_definition, PathParameter)
        ]
        self._query = {each[0]: _Query(*each) for each in query_parameters(handler)}
        self._is_strict = STRICT in handler.opt

    def read(self, method: str, path: Mapping[str, str], query: bytes) -> dict[str, Any]:
        """The values by the names of arguments.

        Args:
            method: of the request.
            path: the parameters of its path.
            query: as it was sent.

        Raises:
            BadRequestError: a value is of another type, a parameter is sent twice, or is unknown to a strict
                handler.
        """
        found: dict[str, Any] = {name: path[name] for name in self._path}
        sent = _values(query) if query else {}
        if self._is_strict and not sent.keys() <= self._query.keys():
            name = next(name for name in sent if name not in self._query)
            named = f"it has {', '.join(self._query)}" if self._query else "it has none"
            raise BadRequestError(f"Unknown query parameter {name[:_LONGEST_NAME]!r} of {method}: {named}")
        for name, parameter in self._query.items():
            found[parameter.argument] = parameter.value(sent[name]) if name in sent else parameter.default
        return found


class _Query:
    """A parameter of the query."""

    def __init__(self, name: str, definition: QueryParameter, declared: FieldDefinition) -> None:
        self.argument = declared.name
        self.default = declared.default
        self._name = name
        self._is_list = any(each.is_non_string_sequence for each in (declared, *declared.inner_types))
        kind: Any = declared.annotation
        self._is_text = declared.annotation in (str, str | None)
        self._expected = "cannot be read"
        if definition.ge is not None:
            kind = Annotated[int, msgspec.Meta(ge=definition.ge)] | None
            self._expected = f"must be a whole number, at least {definition.ge}"
        elif declared.annotation is bool:
            self._expected = "must be true or false"
        # the fields of a struct are resolved once, any other type each time
        self._struct: Any = msgspec.defstruct("Query", [("value", kind)], array_like=True)

    def value(self, sent: list[str]) -> Any:
        """The value that was sent, in the type that the handler takes."""
        if len(sent) > 1 and not self._is_list:
            raise BadRequestError(f"Invalid parameter {self._name}: give it once")
        if self._is_text:
            return sent[0]
        try:
            return msgspec.convert((sent if self._is_list else sent[0],), self._struct, strict=False).value
        except msgspec.ValidationError:
            raise BadRequestError(f"Invalid parameter {self._name}: {self._expected}") from None


def _values(query: bytes) -> dict[str, list[str]]:
    """The values that were sent, by name. `urllib.parse.parse_qs` takes several times as long."""
    sent: dict[str, list[str]] = {}
    for part in query.decode("latin-1").split("&"):
        if part:
            name, _, value = part.partition("=")
            sent.setdefault(unquote_plus(name), []).append(unquote_plus(value))
    return sent
