"""Alembic's entry: migrates over the connection that `floecat.store.database.upgrade` hands in."""

from alembic import context

from floecat.store.all_tables import metadata
from floecat.store.schema import VERSION_TABLE

# Batch mode rebuilds a table on SQLite, which cannot alter one in place. The caller owns the transaction.
context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    version_table=VERSION_TABLE,
    render_as_batch=True,
    transactional_ddl=False,
)
context.run_migrations()
