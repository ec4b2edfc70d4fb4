from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from lance_namespace import DescribeTableRequest
from lance_namespace.errors import InvalidInputError

from floecat.clients.lance import IcebergRestNamespace
from floecat.clients.lance.requests import takes, word
from tests.unit.clients.lance.scripted_server import Reply, ScriptedServer


@takes(DescribeTableRequest)
def fields(_: object, request: DescribeTableRequest) -> tuple[Any, ...]:
    return request.id, request.version, request.vend_credentials


def test_models_and_mappings_are_the_same():
    given = {"id": ["w", "a", "t"], "version": 3, "vend_credentials": True}
    assert fields(None, DescribeTableRequest(**given)) == (["w", "a", "t"], 3, True)
    assert fields(None, given) == (["w", "a", "t"], 3, True)  # type: ignore[arg-type]


def test_an_operation_takes_a_mapping(server: ScriptedServer, connect: Callable[..., IcebergRestNamespace]):
    table = {"metadata": {"location": "s3://lake/t", "properties": {"table_type": "lance"}}}
    server.on("GET", "/v1/p/namespaces/a/tables/t", Reply(body=table))
    request: Any = {"id": ["w", "a", "t"], "vend_credentials": True}
    assert connect().describe_table(request).location == "s3://lake/t"


@pytest.mark.parametrize("request_", [{"id": "w"}, {"id": [1]}, None, 5])
def test_other_things_are_refused(request_: Any):
    with pytest.raises(InvalidInputError, match="Not a DescribeTableRequest"):
        fields(None, request_)


@pytest.mark.parametrize("value", ["ExistOk", "exist_ok", "EXISTOK", "Exist_Ok"])
def test_words(value: str):
    assert word(value, "mode", ("create", "existok")) == "existok"
    assert word(None, "mode", ("create", "existok")) == "create"
    with pytest.raises(InvalidInputError, match="mode must be one of create"):
        word(value, "mode", ("create",))
