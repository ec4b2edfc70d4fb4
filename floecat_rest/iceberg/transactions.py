"""Commits of several tables at once."""

from __future__ import annotations

from litestar import Controller, post
from litestar.params import RawBody

from floecat.commits.table_changes import TableChange
from floecat_rest.http.requests import CatalogRequest
from floecat_rest.iceberg.wire import CommitTransactionRequest

__all__ = ["TransactionController"]


class TransactionController(Controller):
    """Multi-table commits."""

    path = "/v1/{prefix:str}/transactions/commit"
    tags = ["Transactions"]

    @post(operation_id="commitTransaction", status_code=204, sync_to_thread=True)
    def commit_transaction(self, request: CatalogRequest, body: RawBody) -> None:
        """Applies all changes or none."""
        sent = request.read(body, CommitTransactionRequest)
        changes = [
            TableChange(change.identifier.to_identifier(), change.requirements or [], change.updates or [])
            for change in sent.table_changes
        ]
        request.kernel.commits.tables.commit_transaction(request.mutation(body), changes)
