"""Metrics reports, functions, and the token endpoint."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tests.contract.answers import assert_error
from tests.contract.client import Catalog, Namespace, Table
from tests.contract.documents import ID_AND_DATA

SCAN: dict[str, Any] = {
    "report-type": "scan-report",
    "table-name": "ns.t",
    "snapshot-id": -1,
    "filter": {"type": "eq", "term": "id", "value": 1},
    "schema-id": 0,
    "projected-field-ids": [1, 2],
    "projected-field-names": ["id", "data"],
    "metrics": {
        "total-planning-duration": {"time-unit": "nanoseconds", "count": 1, "total-duration": 2644235116},
        "result-data-files": {"unit": "count", "value": 1},
        "added-in-2030": {"unit": "parsecs", "value": 9_223_372_036_854_775_807},
    },
    "metadata": {"engine": "test"},
}

COMMIT: dict[str, Any] = {
    "report-type": "commit-report",
    "table-name": "ns.t",
    "snapshot-id": 9_223_372_036_854_775_807,
    "sequence-number": 1,
    "operation": "append",
    "metrics": {"total-duration": {"time-unit": "nanoseconds", "count": 1, "total-duration": 1}},
}


class TestMetricsReports:
    @pytest.mark.parametrize("report", [SCAN, COMMIT], ids=["scan", "commit"])
    def test_report_is_taken(self, catalog: Catalog, table: Table, report: dict[str, Any]):
        answer = catalog.post(f"{table.path}/metrics", report)
        assert (answer.status_code, answer.content) == (204, b"")

    @pytest.mark.parametrize("filter_", [True, False, {"type": "true"}, {"type": "always-true"}])
    def test_any_filter(self, catalog: Catalog, table: Table, filter_: Any):
        assert catalog.post(f"{table.path}/metrics", SCAN | {"filter": filter_}).status_code == 204

    @pytest.mark.parametrize("field", ["metadata", "x-unknown"])
    def test_optional_and_unknown_fields(self, catalog: Catalog, table: Table, field: str):
        report = {key: value for key, value in SCAN.items() if key != field} | {"added-in-2030": 1}
        assert catalog.post(f"{table.path}/metrics", report).status_code == 204

    @pytest.mark.parametrize(
        ("report", "field"),
        [(SCAN, field) for field in SCAN if field != "metadata"] + [(COMMIT, field) for field in COMMIT],
    )
    def test_missing_field_is_400(self, catalog: Catalog, table: Table, report: dict[str, Any], field: str):
        sent = {key: value for key, value in report.items() if key != field}
        message = assert_error(catalog.post(f"{table.path}/metrics", sent), 400, "BadRequestException")
        assert field in message

    @pytest.mark.parametrize(
        "wrong",
        [
            {"report-type": "weather-report"},
            {"snapshot-id": "1"},
            {"snapshot-id": 2**63},
            {"projected-field-ids": 1},
            {"projected-field-names": [1]},
            {"metrics": []},
            {"metrics": {"a": 1}},
            {"metrics": {"a": {"unit": "count"}}},
            {"table-name": None},
        ],
        ids=str,
    )
    def test_wrong_type_is_400(self, catalog: Catalog, table: Table, wrong: dict[str, Any]):
        assert_error(catalog.post(f"{table.path}/metrics", SCAN | wrong), 400, "BadRequestException")

    def test_missing_table_is_404(self, catalog: Catalog, namespace: Namespace):
        answer = catalog.post(f"{catalog.tables_path(namespace)}/none/metrics", SCAN)
        assert_error(answer, 404, "NoSuchTableException", f"Table does not exist: {namespace[0]}.none")

    def test_report_of_a_staged_table_is_taken(self, catalog: Catalog, namespace: Namespace):
        body = {"name": "staged", "schema": ID_AND_DATA, "stage-create": True}
        catalog.post(catalog.tables_path(namespace), body)
        path = f"{catalog.tables_path(namespace)}/staged"
        assert catalog.post(f"{path}/metrics", COMMIT).status_code == 204
        assert catalog.head(path).status_code == 404

    def test_report_changes_nothing(self, catalog: Catalog, table: Table):
        before = table.get()
        catalog.post(f"{table.path}/metrics", COMMIT)
        assert table.get() == before


class TestFunctions:
    @pytest.mark.parametrize("params", [{}, {"pageToken": ""}, {"pageToken": "", "pageSize": "3"}])
    def test_there_are_none(self, catalog: Catalog, namespace: Namespace, params: dict[str, str]):
        answer = catalog.get(f"{catalog.namespace_path(namespace)}/functions", params=params)
        assert (answer.status_code, answer.json()) == (200, {"identifiers": [], "next-page-token": None})

    def test_load_is_404(self, catalog: Catalog, namespace: Namespace):
        answer = catalog.get(f"{catalog.namespace_path(namespace)}/functions/f")
        message = f"Function does not exist: {namespace[0]}.f"
        assert_error(answer, 404, "NoSuchFunctionException", message)

    @pytest.mark.parametrize("path", ["functions", "functions/f"])
    def test_missing_namespace_is_404(self, catalog: Catalog, namespace: Namespace, path: str):
        answer = catalog.get(f"{catalog.namespace_path((*namespace, 'none'))}/{path}")
        message = f"Namespace does not exist: {namespace[0]}.none"
        assert_error(answer, 404, "NoSuchNamespaceException", message)


class TestTokens:
    """The catalog issues none, and says so in the shape of RFC 6749 section 5.2."""

    @pytest.mark.parametrize(
        "form",
        [
            {
                "grant_type": "client_credentials",
                "client_id": "a",
                "client_secret": "hush",
                "scope": "catalog",
            },
            {"grant_type": "urn:ietf:params:oauth:grant-type:token-exchange", "subject_token": "hush"},
            {"grant_type": "password"},
            {},
        ],
    )
    def test_every_grant_is_unsupported(self, catalog: Catalog, form: dict[str, str]):
        answer = catalog.http.post("/v1/oauth/tokens", data=form)
        assert answer.status_code == 400
        assert answer.headers["content-type"].partition(";")[0] == "application/json"
        body = answer.json()
        assert body["error"] == "unsupported_grant_type"
        assert set(body) <= {"error", "error_description", "error_uri"}
        assert "hush" not in answer.text

    def test_garbage_is_answered_alike(self, catalog: Catalog):
        for content in (b"", b"{}", b"\xff\x00garbage", b"a" * 100_000):
            answer = catalog.http.post("/v1/oauth/tokens", content=content)
            assert (answer.status_code, answer.json()["error"]) == (400, "unsupported_grant_type")

    def test_token_of_a_client_is_no_matter_in_dev_mode(self, local_catalog: Catalog):
        for header in ("Bearer None", "Bearer x", "Basic eDp5", "nonsense"):
            with httpx.Client(
                base_url=local_catalog.url, headers={"authorization": header}, timeout=60
            ) as client:
                assert client.get("/v1/config").status_code == 200
                assert client.get(f"{local_catalog.root}/namespaces").status_code == 200
