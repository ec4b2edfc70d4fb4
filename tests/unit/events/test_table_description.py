from __future__ import annotations

import pytest

from floecat.events.table_description import describe, type_text
from floecat.iceberg.metadata.table_metadata import TableMetadata
from floecat.iceberg.schemas.schema import parse_schema
from floecat.settings.limits import LimitSettings
from tests.unit.iceberg.table_documents import column, document, encode, schema


@pytest.mark.parametrize(
    ("encoded", "text"),
    [
        (b'"decimal(9,2)"', "decimal(9, 2)"),
        (b'"fixed[16]"', "fixed[16]"),
        (b'{"type":"list","element-id":2,"element":"int","element-required":true}', "list<int>"),
        (
            b'{"type":"map","key-id":2,"key":"string","value-id":3,"value-required":false,"value":'
            b'{"type":"struct","fields":[{"id":4,"name":"x","type":"double","required":true},'
            b'{"id":5,"name":"y","type":{"type":"list","element-id":6,"element":"uuid","element-required":false},'
            b'"required":false}]}}',
            "map<string, struct<x: double, y: list<uuid>>>",
        ),
    ],
)
def test_types_are_written_in_one_line(encoded, text):
    parsed = parse_schema(
        b'{"type":"struct","fields":[{"id":1,"name":"c","required":false,"type":' + encoded + b"}]}"
    )
    assert type_text(parsed.struct.fields[0].type) == text


def test_columns_beyond_the_default_are_counted():
    most = LimitSettings().event_schema_bytes
    # with the bytes of each column beside its texts
    fields = [column(1, "a", doc="d" * (most - 100 - len("along"))), column(2, "b"), column(3, "c")]
    found = describe(TableMetadata.parse(encode(document(schemas=[schema(*fields)]))))
    assert ([each.name for each in found.columns], found.columns_left_out) == (["a"], 2)
    fields[0]["doc"] += "d"
    found = describe(TableMetadata.parse(encode(document(schemas=[schema(*fields)]))))
    assert (found.columns, found.columns_left_out) == ((), 3)
