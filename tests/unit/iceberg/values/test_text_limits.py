from __future__ import annotations

import pytest

from floecat.errors import IllegalArgumentError
from floecat.iceberg.metadata.properties import (
    check_new_table_properties,
    previous_versions_max,
    requested_format_version,
)
from floecat.iceberg.schemas.schema import parse_schema
from floecat.iceberg.values.text_limits import int32_of

NUMBERS = {
    "3": 3,
    "+3": 3,
    "-3": -3,
    "-0": 0,
    "0003": 3,
    "0" * 5000 + "3": 3,
    "2147483647": 2**31 - 1,
    "-2147483648": -(2**31),
}
NO_NUMBERS = [
    "",
    " 3 ",
    "3\n",
    "1_0",
    "٣",
    "³",
    "\uff13",
    "3.0",
    "1e3",
    "0x3",
    "+",
    "--3",
    "2147483648",
    "-2147483649",
    "9" * 11,
    "9" * 5000,
]


@pytest.mark.parametrize(("text", "number"), NUMBERS.items())
def test_numbers(text: str, number: int) -> None:
    assert int32_of(text) == number
    assert requested_format_version({"format-version": text}) == number
    assert previous_versions_max({"write.metadata.previous-versions-max": text}) == max(1, number)


@pytest.mark.parametrize("text", NO_NUMBERS)
def test_no_numbers(text: str) -> None:
    assert int32_of(text) is None
    assert previous_versions_max({"write.metadata.previous-versions-max": text}) == 100
    with pytest.raises(IllegalArgumentError, match="format-version must have integer value"):
        requested_format_version({"format-version": text})


@pytest.mark.parametrize("text", [*NO_NUMBERS, "-1"])
@pytest.mark.parametrize("name", ["num-retries", "min-wait-ms", "max-wait-ms", "total-timeout-ms"])
def test_settings_of_retries(text: str, name: str) -> None:
    schema = parse_schema(b'{"type":"struct","fields":[]}')
    check_new_table_properties({f"commit.retry.{name}": "+7"}, schema, 2)
    with pytest.raises(IllegalArgumentError, match=f"{name} must have non negative integer value"):
        check_new_table_properties({f"commit.retry.{name}": text}, schema, 2)
