"""iceberg-js, called from Python."""

from __future__ import annotations

import json
from typing import Any

from tests.clients.warehouses import Warehouse
from tests.services.nodejs import NodeProject

__all__ = ["IcebergJs"]


class IcebergJs:
    """The client, in a process of Node.js."""

    def __init__(self, project: NodeProject, warehouse: Warehouse) -> None:
        self._process = project.start("calls.mjs", warehouse.uri, warehouse.name)

    def __call__(self, method: str, *arguments: Any) -> Any:
        """Calls a method of the catalog."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"method": method, "args": arguments}) + "\n")
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline())
        if "error" in answer:
            raise RuntimeError(f"{answer['error']['status']}: {answer['error']['message']}")
        return answer["result"]

    def close(self) -> None:
        """Ends the process."""
        self._process.communicate()
