"""Listings in pages, by keyset: a page starts after the last name of the one before."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from itertools import compress
from typing import Final, TypeVar
from uuid import UUID

from floecat.auth.authorizer import Privilege
from floecat.entries.calls import Call, EntryKind, Page, PageRequest
from floecat.entries.names import existing_namespace, missing_namespace
from floecat.errors import BadRequestError
from floecat.iceberg.metadata.properties import table_type
from floecat.identifiers.encoding import physical_name
from floecat.identifiers.namespace import Namespace, TableIdentifier
from floecat.store import page_tokens
from floecat.store.catalogs import namespaces
from floecat.store.database.engine import Store
from floecat.store.entries import tables

__all__ = ["EntryListing", "ListStates", "Paging"]

T = TypeVar("T")

_PAGE: Final = 1000
_LISTED: Final[Mapping[EntryKind, Privilege]] = {
    "table": Privilege.LIST_TABLE,
    "view": Privilege.LIST_VIEW,
}

_NAMES_AT_ONCE: Final = 101
"""A page of a hundred names, and whether there are more. What is longer takes a thread."""


class Paging:
    """Page sizes and tokens."""

    def __init__(self, *, default_size: int, max_size: int) -> None:
        """Sets the sizes of pages.

        Args:
            default_size: of a page whose request names none.
            max_size: of any page.
        """
        self._default_size = default_size
        self._max_size = max_size

    def page(
        self,
        scope: str,
        request: PageRequest,
        fetch: Callable[[str | None, int | None], list[tuple[str, T]]],
        visible: Callable[[Sequence[T]], Sequence[bool]],
    ) -> Page[T]:
        """A page of a listing, or all of it when the request has no token.

        What the principal may not see takes no room on a page, and no token is made of it.

        Args:
            scope: what is listed; a token of another listing is refused.
            request: token and size.
            fetch: rows as (key, item), ordered by key, after a key and up to a limit.
            visible: whether the principal may see each of some items.

        Raises:
            BadRequestError: the token is not one of this listing.
        """

        def shown(rows: list[tuple[str, T]]) -> Iterator[tuple[str, T]]:
            return compress(rows, visible([item for _, item in rows]))

        if request.token is None:
            return Page([item for _, item in shown(fetch(None, None))])
        after = page_tokens.decode(request.token, scope) if request.token else None
        size = min(request.size or self._default_size, self._max_size)
        rows: list[tuple[str, T]] = []
        limit = size + 1
        while len(rows) <= size:
            fetched = fetch(after, limit)
            rows += shown(fetched)
            if len(fetched) < limit:
                break
            after, limit = fetched[-1][0], 2 * limit  # few are visible: look further with each statement
        more = len(rows) > size
        token = page_tokens.encode(rows[size - 1][0], scope) if more else None
        return Page([item for _, item in rows[:size]], token)


class EntryListing:
    """Lists entries by name. A listing reads no metadata, so a broken table cannot fail it."""

    def __init__(self, store: Store, paging: Paging) -> None:
        self._store = store
        self._paging = paging

    def list(
        self,
        call: Call,
        namespace: Namespace,
        kind: EntryKind,
        page: PageRequest,
        of_type: str | None = None,
    ) -> Page[TableIdentifier]:
        """Identifiers of one kind that the principal may see, ordered by name.

        Args:
            namespace: where to look.
            kind: what is listed.
            page: token and size.
            of_type: lists only tables whose property `table_type` has this value, whatever its case.

        Raises:
            ForbiddenError: the principal may not use the namespace.
            NoSuchNamespaceError: the namespace does not exist.
            BadRequestError: the page token is not one of this listing, or no table can be of the type.
        """
        wanted = None if of_type is None else _checked_type(of_type)
        scope = f"{kind}s|{call.catalog.id}|{physical_name(namespace)}"
        if wanted is not None:
            scope += f"|{wanted}"
        call.check((Privilege.USE_SCHEMA, call.on_namespace(namespace)))
        listed = _LISTED[kind]
        with self._store.read() as conn:

            def fetch(after: str | None, limit: int | None) -> builtins.list[tuple[str, TableIdentifier]]:
                is_cut = self._store.is_read_at_once and (limit is None or limit > _NAMES_AT_ONCE)
                most = _NAMES_AT_ONCE if is_cut else limit
                names = tables.list_names(conn, call.catalog.id, namespace, kind, after, most, wanted)
                if is_cut and len(names) == _NAMES_AT_ONCE:
                    self._store.check_may_wait()
                if not names and namespaces.get(conn, call.catalog.id, namespace) is None:
                    raise missing_namespace(namespace)
                return [(name, TableIdentifier(namespace, name)) for name in names]

            return self._paging.page(
                scope,
                page,
                fetch,
                lambda found: call.allowed([(listed, call.on_entry(kind, name)) for name in found]),
            )

    def list_all(self, call: Call, kind: EntryKind, within: Namespace = ()) -> Iterator[tables.ListedTable]:
        """Entries of one kind in all namespaces that the principal may see, in order of creation.

        Args:
            kind: what is listed.
            within: only those of this namespace and of namespaces below it; empty for all.

        Raises:
            NoSuchNamespaceError: there is no such namespace.
        """
        if within:
            existing_namespace(self._store, call, within, Privilege.USE_SCHEMA)
        after: UUID | None = None
        while True:
            with self._store.read() as conn:
                page = tables.list_all(conn, call.catalog.id, after, _PAGE, kind)
            found = [each for each in page if each.namespace[: len(within)] == within]
            names = [TableIdentifier(each.namespace, each.name) for each in found]
            checks = [(_LISTED[kind], call.on_entry(kind, name)) for name in names]
            yield from compress(found, call.allowed(checks))
            if len(page) < _PAGE:
                return
            after = page[-1].id


class ListStates:
    """Tells the states of lists, so that an answer can be sent again while nothing in it has changed."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def state(self, call: Call, within: Namespace | None) -> Hashable | None:
        """A name for everything that lists of what is directly in a namespace hang on, in one statement.

        It changes with each table, view and namespace that comes or goes there, and with any change of who
        may do what. An answer belongs to it if it is the same before and after the answer is made.

        Args:
            call: who asks. Nothing is checked: the answer that is kept was.
            within: the namespace, or `None` for the top level of the catalog.

        Returns:
            `None` if there is no such namespace, or what the principal may see is not known to stay.
        """
        kept_by = call.authorizer.kept_by(call.principal)
        if kept_by is None:
            return None
        with self._store.read() as conn:
            state = namespaces.contents_state(conn, call.catalog.id, within)
        return None if state is None else (kept_by, state)


def _checked_type(of_type: str) -> str:
    wanted = table_type({"table_type": of_type})
    if wanted is None:
        raise BadRequestError("Invalid parameter tableType: must be 1 to 64 printable ASCII characters")
    return wanted
