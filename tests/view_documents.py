"""Views as JSON, for tests that are about something else."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

__all__ = ["view_document", "view_version"]


def view_version(namespace: Sequence[str] = ("ns",), **changes: Any) -> dict[str, Any]:
    """A version with one query; underscores in the names of `changes` stand for hyphens."""
    return {
        "version-id": 1,
        "timestamp-ms": 1,
        "schema-id": 0,
        "summary": {},
        "representations": [{"type": "sql", "sql": "SELECT 1", "dialect": "spark"}],
        "default-namespace": list(namespace),
    } | {name.replace("_", "-"): value for name, value in changes.items()}


def view_document(schema: Any, version: dict[str, Any]) -> dict[str, Any]:
    """The metadata of a view that has one version and one schema."""
    return {
        "view-uuid": "fa6506c3-7681-40c8-86dc-e36561f83385",
        "format-version": 1,
        "location": "s3://lake/v",
        "current-version-id": version["version-id"],
        "schemas": [schema],
        "versions": [version],
        "version-log": [{"timestamp-ms": 1, "version-id": version["version-id"]}],
    }
