from __future__ import annotations

import pytest

from floecat.events.table_description import type_text
from floecat.iceberg.schemas.schema import parse_schema


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
    schema = parse_schema(
        b'{"type":"struct","fields":[{"id":1,"name":"c","required":false,"type":' + encoded + b"}]}"
    )
    assert type_text(schema.struct.fields[0].type) == text
