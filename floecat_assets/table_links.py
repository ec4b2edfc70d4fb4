"""Links from Dagster to the REST service."""

from __future__ import annotations

from urllib.parse import urlencode

from floecat.identifiers.encoding import NamespaceSeparator, encode_segment
from floecat.identifiers.namespace import TableIdentifier
from floecat.identifiers.written_names import written

__all__ = ["TableLinks"]


class TableLinks:
    """Links to tables and views in the REST service."""

    def __init__(self, catalog_url: str | None, separator: NamespaceSeparator) -> None:
        """Takes the setting `floecat.pipeline.catalog-url`, and how levels of namespaces are joined."""
        self._root = None if catalog_url is None else catalog_url.rstrip("/")
        self._separator = separator

    def purges(self, catalog: str, identifier: TableIdentifier) -> str | None:
        """The URL of the purges of a table; arguments and result as of `load`."""
        if self._root is None:
            return None
        query = urlencode({"kind": "purge", "entry": written(identifier)})
        return f"{self._root}/management/v1/catalogs/{catalog.partition('@')[0]}/jobs?{query}"

    def load(self, catalog: str, identifier: TableIdentifier, kind: str) -> str | None:
        """The URL of `loadTable` or `loadView`; `None` without a URL of the service.

        Args:
            catalog: as `floecat.events.live_entries.catalog_label` writes it. The account is not in the path.
            identifier: of the table or view.
            kind: `table` or `view`.
        """
        if self._root is None:
            return None
        prefix = catalog.partition("@")[0]
        namespace = self._separator.join_path(identifier.namespace)
        return f"{self._root}/v1/{prefix}/namespaces/{namespace}/{kind}s/{encode_segment(identifier.name)}"
