"""Scan plans: the files that a scan reads, found by the catalog."""

from __future__ import annotations

import re
from typing import Final
from uuid import UUID

import msgspec
from litestar import Controller, delete, get, post
from litestar.params import RawBody

from floecat.entries.calls import Call
from floecat.errors import NoSuchPlanIdError
from floecat.identifiers.namespace import TableIdentifier
from floecat.planning.plans.plan_answers import PlanAnswer
from floecat.planning.plans.plan_requests import PlanTableScan
from floecat.planning.plans.plans import PlanClient
from floecat_rest.http.documents import NO_STORE, credentials_json, with_refresh
from floecat_rest.http.errors import describe_error
from floecat_rest.http.json_responses import Answer
from floecat_rest.http.options import WITHOUT_STORAGE
from floecat_rest.http.request_log import request_id_of
from floecat_rest.http.requests import CatalogRequest, path_name
from floecat_rest.iceberg.wire import FetchScanTasksRequest

__all__ = ["PlanController", "PlansController", "ScanTasksController"]

_TABLE: Final = "/v1/{prefix:str}/namespaces/{namespace:str}/tables/{table:str}"
_PYICEBERG: Final = re.compile(r"PyIceberg/0\.(\d{1,4})\.")
_LAST_EARLY_PYICEBERG: Final = 12
_EARLY_PYICEBERG: Final = PlanClient(30_000, is_early_pyiceberg=True)
_DELTA_SPARK: Final = "Delta/"


class PlansController(Controller):
    """Plans of a table."""

    path = f"{_TABLE}/plan"
    tags = ["Scan planning"]

    @post(operation_id="planTableScan", status_code=200, sync_to_thread=True)
    def plan_table_scan(self, request: CatalogRequest, body: RawBody) -> Answer:
        """Plans a scan: its tasks, or how to get at them."""
        sent = request.read(body, PlanTableScan)
        call, name = _reading(request, request.mutation(body))
        answer = request.kernel.planning.plans.plan(call, name, sent, _client(request))
        return _answered(request, call, name, answer, with_id=True)


class PlanController(Controller):
    """A plan."""

    path = f"{_TABLE}/plan/{{plan-id:str}}"
    tags = ["Scan planning"]

    @get(operation_id="fetchPlanningResult", sync_to_thread=True, opt={WITHOUT_STORAGE: True})
    def fetch_planning_result(self, request: CatalogRequest) -> Answer:
        """The state and the result of a plan."""
        call, name = _reading(request, request.call())
        answer = request.kernel.planning.plans.result(call, name, _plan_id(request))
        return _answered(request, call, name, answer)

    @delete(operation_id="cancelPlanning", sync_to_thread=True, opt={WITHOUT_STORAGE: True})
    def cancel_planning(self, request: CatalogRequest) -> None:
        """Ends a plan and frees what it takes."""
        call, name = _reading(request, request.call())
        request.kernel.planning.plans.cancel(call, name, _plan_id(request))


class ScanTasksController(Controller):
    """Tasks of plans."""

    path = f"{_TABLE}/tasks"
    tags = ["Scan planning"]

    @post(operation_id="fetchScanTasks", status_code=200, sync_to_thread=True)
    def fetch_scan_tasks(self, request: CatalogRequest, body: RawBody) -> Answer:
        """The file scan tasks of a plan task."""
        sent = request.read(body, FetchScanTasksRequest)
        call, name = _reading(request, request.mutation(body))
        fields = request.kernel.planning.tasks.fetch(call, name, sent.plan_task)
        return Answer(200, b"{%b}" % fields)


def _reading(request: CatalogRequest, call: Call) -> tuple[Call, TableIdentifier]:
    """The call that reads the table, and its name; engines send `referenced-by` to plan, too."""
    name = request.entry(call)
    return request.through_views(call, "table", name), name


def _client(request: CatalogRequest) -> PlanClient:
    agent = request.header(b"user-agent") or ""
    pyiceberg = _PYICEBERG.match(agent)
    if pyiceberg is not None and int(pyiceberg[1]) <= _LAST_EARLY_PYICEBERG:
        return _EARLY_PYICEBERG
    budget_ms = request.services.settings.gateway.plan_sync_budget.ms
    return PlanClient(budget_ms, zero_is_current=agent.startswith(_DELTA_SPARK))


def _plan_id(request: CatalogRequest) -> UUID:
    text = path_name(request, "plan-id")
    try:
        return UUID(text)
    except ValueError:
        raise NoSuchPlanIdError("Plan does not exist") from None


def _answered(
    request: CatalogRequest, call: Call, name: TableIdentifier, answer: PlanAnswer, *, with_id: bool = False
) -> Answer:
    head = f'{{"status":"{answer.status}"'
    if with_id:
        head += f',"plan-id":"{answer.plan_id}"'
    fields = answer.fields
    if answer.error is not None:
        described, _ = describe_error(answer.error, request_id_of(request.scope))
        fields = b'"error":' + msgspec.json.encode(described)
    parts = [head.encode(), *([fields] if fields else [])]
    asked = answer.status == "completed" and "keys" in call.delegation
    credentials = request.kernel.catalog.loader.credentials(call, name) if asked else ()
    if credentials:
        table = request.scope["path"].rpartition("/plan")[0]
        parts.append(credentials_json(with_refresh(credentials, table)))
    return Answer(200, b",".join(parts) + b"}", [NO_STORE] if credentials else ())
