"""Assets of tables and views, and what leads to what among them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Final, Protocol
from uuid import UUID

import dagster as dg

from floecat.events.live_entries import LiveEntry
from floecat.events.view_queries import ViewQuery
from floecat.identifiers.namespace import TableIdentifier
from floecat.settings.limits import LimitSettings
from floecat_assets.table_keys import table_asset_key, table_group
from floecat_assets.table_links import TableLinks
from floecat_assets.tables.view_sql import named_tables

__all__ = ["Queries", "defined_as", "table_specs"]

_DELTA_SOURCE: Final = "~delta"
"""Last part of the key of a Delta table's log. `~` is escaped in names, so no table has this key."""

_KINDS: Final = {"iceberg", "delta", "lance", "view"}

_DEFAULT_LIMITS: Final = LimitSettings()


class Queries(Protocol):
    """Knows what views read."""

    def of(self, entry_id: UUID, /) -> ViewQuery | None:
        """The current query of a view."""
        ...


def table_specs(
    entries: Sequence[LiveEntry], links: TableLinks, queries: Queries, limits: LimitSettings = _DEFAULT_LIMITS
) -> list[dg.AssetSpec]:
    """The assets: one per table or view, and one for the log of each Delta table.

    Args:
        entries: the tables and views.
        links: to the REST service.
        queries: of the views; a view leads back to those of the entries that its SQL surely names.
        limits: on the SQL of a view, and on the entries that it names.
    """
    known = {(entry.catalog_name, entry.identifier): entry for entry in entries}
    lineage = _Lineage()
    specs = []
    for entry in entries:
        key = table_asset_key(entry.catalog_name, entry.identifier)
        if entry.format == "delta":
            source = _delta_source(entry, key)
            lineage.set(key, [source.key])
            specs.append(source)
        query = queries.of(entry.entry_id) if entry.kind == "view" else None
        if query is not None:
            names = islice(_sources(entry, query, known, limits.view_sql_bytes), limits.view_sources)
            lineage.set(key, [table_asset_key(*name) for name in names])
        specs.append(_spec(entry, key, links, lineage.sources.get(key, ())))
    return specs


def defined_as(entry: LiveEntry) -> tuple[str, ...]:
    """The values that define the asset of an entry: when they have changed, it has to be defined again."""
    query = entry.metadata_location if entry.kind == "view" else ""
    return (str(entry.entry_id), entry.qualified_name, entry.format, query)


class _Lineage:
    """The assets that each asset is made of. Views may name each other in a circle; Dagster's graph not."""

    def __init__(self) -> None:
        self.sources: dict[dg.AssetKey, list[dg.AssetKey]] = {}
        self._made_of: defaultdict[dg.AssetKey, list[dg.AssetKey]] = defaultdict(list)
        """Assets that are made of each asset: `sources` the other way round."""

    def set(self, key: dg.AssetKey, sources: Iterable[dg.AssetKey]) -> None:
        """Sets the sources of an asset, once, without those that close a circle."""
        made_of_it, open_keys = {key}, [key]
        while open_keys:
            for each in self._made_of.get(open_keys.pop(), ()):
                if each not in made_of_it:
                    made_of_it.add(each)
                    open_keys.append(each)
        self.sources[key] = [each for each in dict.fromkeys(sources) if each not in made_of_it]
        for each in self.sources[key]:
            self._made_of[each].append(key)


def _spec(
    entry: LiveEntry, key: dg.AssetKey, links: TableLinks, sources: Sequence[dg.AssetKey]
) -> dg.AssetSpec:
    metadata: dict[str, dg.MetadataValue] = {
        "dagster/table_name": dg.MetadataValue.text(entry.qualified_name),
        "floecat/name": dg.MetadataValue.text(entry.logical_name),
        "dagster/uri": dg.MetadataValue.text(entry.location),
        "floecat/created_at": dg.MetadataValue.timestamp(entry.created_at_ms / 1000),
    }
    if entry.created_by is not None:
        metadata["floecat/created_by"] = dg.MetadataValue.text(entry.created_by)
    link = links.load(entry.catalog_name, entry.identifier, entry.kind)
    if link is not None:
        metadata[f"floecat/load_{entry.kind}"] = dg.MetadataValue.url(link)
    # any client can name a format that is none, and that Dagster does not take
    kinds = {"iceberg", "view" if entry.kind == "view" else entry.format} & _KINDS
    return dg.AssetSpec(
        key,
        description=f"The {entry.kind} {entry.qualified_name}, as clients of the catalog commit to it.",
        group_name=table_group(entry.catalog_name, entry.identifier),
        kinds=kinds,
        tags={"floecat/table_id": str(entry.entry_id)},
        metadata=metadata,
        deps=sources,
    )


def _delta_source(entry: LiveEntry, key: dg.AssetKey) -> dg.AssetSpec:
    return dg.AssetSpec(
        dg.AssetKey([*key.path, _DELTA_SOURCE]),
        description=f"The Delta table at {entry.location}, which other engines write.",
        group_name=table_group(entry.catalog_name, entry.identifier),
        kinds={"delta"},
        metadata={"dagster/uri": dg.MetadataValue.text(entry.location)},
    )


def _sources(
    view: LiveEntry,
    query: ViewQuery,
    known: Mapping[tuple[str, TableIdentifier], LiveEntry],
    most_bytes: int,
) -> list[tuple[str, TableIdentifier]]:
    """The entries that the SQL of a view names, without those that a name could mean two of."""
    found: dict[tuple[str, TableIdentifier], None] = {}
    left_bytes = most_bytes
    for sql in query.sql:
        left_bytes -= len(sql.encode())
        if left_bytes < 0:
            break
        for name in named_tables(sql):
            meant = {each for each in _meanings(view, query, name) if each in known} - {
                (view.catalog_name, view.identifier)
            }
            if len(meant) == 1:
                found[meant.pop()] = None
    return list(found)


def _meanings(
    view: LiveEntry, query: ViewQuery, name: tuple[str, ...]
) -> Iterator[tuple[str, TableIdentifier]]:
    """Every entry that a name may stand for: engines give catalogs names of their own."""
    catalogs = {view.catalog_name, query.default_catalog or view.catalog_name}
    for catalog in sorted(catalogs):
        if len(name) == 1:
            yield catalog, TableIdentifier(query.default_namespace, name[0])
        else:
            yield catalog, TableIdentifier(name[:-1], name[-1])
    if len(name) > 2:
        yield name[0], TableIdentifier(name[1:-1], name[-1])
        if name[0] == query.default_catalog:
            yield view.catalog_name, TableIdentifier(name[1:-1], name[-1])
