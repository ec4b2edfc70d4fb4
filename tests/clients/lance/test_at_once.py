"""Several callers declare one table."""

from __future__ import annotations

import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

from lance_namespace import DeclareTableRequest
from lance_namespace.errors import ErrorCode, LanceNamespaceError

from tests.clients.lance.conftest import Lake

CALLERS = 8


def test_one_of_several_declarations_wins(disk_lake: Lake):
    table = [*disk_lake.new_namespace(), "t"]
    ready = threading.Barrier(CALLERS)

    def declare(_: int) -> ErrorCode | None:
        namespace = disk_lake.connect()
        ready.wait(timeout=120)
        try:
            namespace.declare_table(DeclareTableRequest(id=table))
        except LanceNamespaceError as error:
            return error.code
        return None

    with ThreadPoolExecutor(CALLERS) as pool:
        outcomes = Counter(pool.map(declare, range(CALLERS)))
    assert outcomes == {None: 1, ErrorCode.TABLE_ALREADY_EXISTS: CALLERS - 1}
