"""All tables of the store: each module that defines one is imported here, so that `metadata` is complete."""

from floecat.store.access import grants, principals, refusals, roles
from floecat.store.catalogs import connectors, storage_authorities
from floecat.store.commits import confirmed_transactions, idempotency, metrics
from floecat.store.entries import entry_areas, entry_paths, followed_entries, staged_tables
from floecat.store.jobs import leases, purge_batches, purger_rows
from floecat.store.planning import plans, queries
from floecat.store.schema import metadata
from floecat.store.statistics import schema as statistics

__all__ = ["metadata"]

_MODULES = (
    grants,
    principals,
    refusals,
    roles,
    connectors,
    storage_authorities,
    confirmed_transactions,
    idempotency,
    metrics,
    entry_areas,
    entry_paths,
    followed_entries,
    staged_tables,
    leases,
    purge_batches,
    purger_rows,
    plans,
    queries,
    statistics,
)
