"""Statistics, constraints and index artifacts of the snapshots of a table."""

from __future__ import annotations

from typing import Annotated

from litestar import delete, get, post, put
from litestar.params import QueryParameter, RawBody

from floecat.entries.calls import PageRequest
from floecat.errors import BadRequestError
from floecat.statistics.constraints import ConstraintBundle, SnapshotConstraints
from floecat.statistics.index_artifacts import IndexArtifact
from floecat.statistics.records import StatisticsRecord, TargetKind
from floecat_rest.http.requests import CatalogRequest, PageSize, PageToken
from floecat_rest.management.controllers import ManagementController
from floecat_rest.management.statistics_wire import (
    ConstraintsRequest,
    IndexArtifactsResponse,
    ListConstraintsResponse,
    PutIndexArtifactsRequest,
    PutResponse,
    PutStatisticsRequest,
    StatisticsResponse,
)

__all__ = [
    "TABLE",
    "ConstraintBundlesController",
    "ConstraintsController",
    "IndexArtifactController",
    "IndexArtifactsController",
    "StatisticsController",
    "TargetStatisticsController",
]

TABLE = "/management/v1/catalogs/{catalog:str}/namespaces/{namespace:str}/tables/{table:str}"

Snapshot = Annotated[
    str | None,
    QueryParameter(description="Id, or name of a branch or tag. Default: the current snapshot."),
]


class StatisticsController(ManagementController):
    """Statistics of targets."""

    path = f"{TABLE}/statistics"

    @get(operation_id="listStatistics", sync_to_thread=True)
    def list_statistics(
        self,
        request: CatalogRequest,
        snapshot: Snapshot = None,
        kind: Annotated[
            str | None,
            QueryParameter(description="table, column, expression or file. Default: all but captured files."),
        ] = None,
        page_token: PageToken = None,
        page_size: PageSize = None,
    ) -> StatisticsResponse:
        """Rows, nulls, bounds and distinct values, by target; at most 1,000 records."""
        call = request.call()
        page = PageRequest(page_token, page_size)
        snapshot_id, found = request.kernel.statistics.targets.list(
            call, request.entry(call), snapshot, _kind(kind), page
        )
        return StatisticsResponse(snapshot_id, found.items, found.next_token)

    @post(operation_id="putStatistics", status_code=200, sync_to_thread=True)
    def put_statistics(
        self,
        request: CatalogRequest,
        body: RawBody,
        snapshot: Snapshot = None,
        order: Annotated[
            str,
            QueryParameter(description="strict: the snapshot must exist. lenient: it may come later."),
        ] = "strict",
    ) -> PutResponse:
        """Puts records of one snapshot, each in place of the one of its target."""
        sent = request.read(body, PutStatisticsRequest)
        if order not in ("strict", "lenient"):
            raise BadRequestError("Invalid order: must be strict or lenient")
        call = request.mutation(body)
        strict = order == "strict"
        return PutResponse(
            request.kernel.statistics.targets.put(
                call, request.entry(call), snapshot, sent.records, strict=strict
            )
        )


class TargetStatisticsController(ManagementController):
    """Statistics of one target."""

    path = f"{TABLE}/statistics/{{target:str}}"

    @get(operation_id="loadStatistics", sync_to_thread=True)
    def load_statistics(self, request: CatalogRequest, snapshot: Snapshot = None) -> StatisticsRecord:
        """The record of a target, by its storage id."""
        call, target = request.call(), request.path_params["target"]
        return request.kernel.statistics.targets.get(call, request.entry(call), snapshot, target)


class IndexArtifactsController(ManagementController):
    """Index artifacts."""

    path = f"{TABLE}/index-artifacts"

    @get(operation_id="listIndexArtifacts", sync_to_thread=True)
    def list_artifacts(
        self,
        request: CatalogRequest,
        snapshot: Snapshot = None,
        page_token: PageToken = None,
        page_size: PageSize = None,
    ) -> IndexArtifactsResponse:
        """Files that index a data file each; at most 1,000."""
        call = request.call()
        page = PageRequest(page_token, page_size)
        snapshot_id, found = request.kernel.statistics.index_artifacts.list(
            call, request.entry(call), snapshot, page
        )
        return IndexArtifactsResponse(snapshot_id, found.items, found.next_token)

    @post(operation_id="putIndexArtifacts", status_code=200, sync_to_thread=True)
    def put_artifacts(self, request: CatalogRequest, body: RawBody, snapshot: Snapshot = None) -> PutResponse:
        """Puts artifacts of one snapshot, each in place of the one of its data file."""
        sent = request.read(body, PutIndexArtifactsRequest)
        call = request.mutation(body)
        return PutResponse(
            request.kernel.statistics.index_artifacts.put(call, request.entry(call), snapshot, sent.artifacts)
        )


class IndexArtifactController(ManagementController):
    """The index artifact of one data file."""

    path = f"{TABLE}/index-artifacts/{{target:str}}"

    @get(operation_id="loadIndexArtifact", sync_to_thread=True)
    def load_artifact(self, request: CatalogRequest, snapshot: Snapshot = None) -> IndexArtifact:
        """The artifact of a data file, by the storage id of the file."""
        call, target = request.call(), request.path_params["target"]
        return request.kernel.statistics.index_artifacts.get(call, request.entry(call), snapshot, target)


class ConstraintsController(ManagementController):
    """Constraints."""

    path = f"{TABLE}/constraints"

    @get(operation_id="loadConstraints", sync_to_thread=True)
    def load_constraints(self, request: CatalogRequest, snapshot: Snapshot = None) -> SnapshotConstraints:
        """The constraints that were put, and the metadata's: identifier fields, NOT NULL, CHECK of Delta."""
        call = request.call()
        return request.kernel.statistics.constraints.get(call, request.entry(call), snapshot)

    @put(operation_id="replaceConstraints", sync_to_thread=True)
    def replace_constraints(
        self, request: CatalogRequest, body: RawBody, snapshot: Snapshot = None
    ) -> SnapshotConstraints:
        """Replaces the bundle that was put."""
        bundle = _bundle(request, body)
        call = request.mutation(body)
        return request.kernel.statistics.constraints.put(call, request.entry(call), snapshot, bundle)

    @post(operation_id="addConstraints", status_code=200, sync_to_thread=True)
    def add_constraints(
        self,
        request: CatalogRequest,
        body: RawBody,
        snapshot: Snapshot = None,
        mode: Annotated[
            str,
            QueryParameter(description="merge replaces those of the same names, append refuses them."),
        ] = "merge",
    ) -> SnapshotConstraints:
        """Adds one or several constraints to the bundle."""
        bundle = _bundle(request, body)
        if mode not in ("merge", "append"):
            raise BadRequestError("Invalid mode: must be merge or append")
        call = request.mutation(body)
        constraints = request.kernel.statistics.constraints
        add = constraints.merge if mode == "merge" else constraints.append
        return add(call, request.entry(call), snapshot, bundle)

    @delete(operation_id="deleteConstraints", status_code=200, sync_to_thread=True)
    def delete_constraints(
        self,
        request: CatalogRequest,
        snapshot: Snapshot = None,
        name: Annotated[str | None, QueryParameter(description="Default: the whole bundle.")] = None,
    ) -> SnapshotConstraints:
        """Deletes the constraint of a name, or the bundle."""
        call = request.mutation()
        return request.kernel.statistics.constraints.delete(call, request.entry(call), snapshot, name)


class ConstraintBundlesController(ManagementController):
    """The constraints of all snapshots."""

    path = f"{TABLE}/constraint-bundles"

    @get(operation_id="listConstraints", sync_to_thread=True)
    def list_constraints(
        self, request: CatalogRequest, page_token: PageToken = None, page_size: PageSize = None
    ) -> ListConstraintsResponse:
        """The bundles that were put, by snapshot."""
        call = request.call()
        page = PageRequest(page_token, page_size)
        found = request.kernel.statistics.constraints.list(call, request.entry(call), page)
        return ListConstraintsResponse(found.items, found.next_token)


def _bundle(request: CatalogRequest, body: bytes) -> ConstraintBundle:
    sent = request.read(body, ConstraintsRequest)
    return ConstraintBundle(sent.constraints, sent.properties)


def _kind(text: str | None) -> TargetKind | None:
    try:
        return None if text is None else TargetKind(text)
    except ValueError:
        raise BadRequestError("Invalid kind: must be table, column, expression or file") from None
