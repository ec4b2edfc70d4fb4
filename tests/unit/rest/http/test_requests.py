from __future__ import annotations

import msgspec
import pytest

from floecat.errors import BadRequestError
from floecat_rest.http.errors import UnsupportedMediaTypeError
from floecat_rest.http.requests import check_media_type, decode_body


class Body(msgspec.Struct, rename="kebab"):
    table_name: str
    schema: msgspec.Raw = msgspec.Raw(b"null")
    numbers: list[int] = []


def test_unknown_fields_are_ignored_and_raw_parts_stay_as_they_are():
    body = decode_body(b'{"table-name":"t","schema":{"a": 1.50},"later":[1]}', Body)
    assert body.table_name == "t"
    assert bytes(body.schema) == b'{"a": 1.50}'


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", "expected JSON"),
        (b"{", "truncated"),
        (b"\xef\xbb\xbf{}", "malformed"),
        (b'{"table-name":null}', r"got `null` - at `\$.table-name`"),
        (b'{"table-name":"t","numbers":[1,"secret"]}', r"got `str` - at `\$.numbers\[1\]`"),
        (b"{}", "missing required field `table-name`"),
        (b"[]", "got `array`"),
        (b'{"table-name":"t"} x', "trailing"),
        (b'{"table-name":"t","numbers":[1e999]}', "out of range"),
        (b'{"table-name":"t","numbers":[' + b"9" * 5000 + b"]}", "out of range"),
        (b'{"table-name":"\xff"}', "not UTF-8"),
        (b'{"table-name":"t","schema":"\xff"}', "not UTF-8"),
        (b'{"table-name":"\\ud800"}', "Invalid body"),
        (b'{"table-name":"t","schema":' + b"[" * 100_000 + b"]" * 100_000 + b"}", "too deeply"),
        (b'{"table-name":"t","x":' + b'{"a":' * 100_000, "too deeply"),
        (b'{"table-name":"t","schema":' + b"[" * 400 + b"]" * 400 + b"}", "more than 400 levels"),
        (
            b'{"table-name":"t","numbers":[' + b"1," * 100_000 + b"1]}",
            r"more than 100000 .*limits.elements",
        ),
        (b'{"table-name":"t","table-name" : "t"}', "a key more than once"),
        (b'{"table-name":"t","schema":{"x":[{"a":1,"\\u0061":1}]}}', "a key more than once"),
    ],
)
def test_what_cannot_be_read_is_a_bad_request(body, message):
    with pytest.raises(BadRequestError, match=message) as refused:
        decode_body(body, Body)
    assert "secret" not in refused.value.message


def test_the_deepest_nesting_that_is_read():
    deep = b"[" * 399 + b"]" * 399
    assert bytes(decode_body(b'{"table-name":"t","schema":' + deep + b"}", Body).schema) == deep


@pytest.mark.parametrize(
    "content_type",
    [None, "", "application/json", "Application/JSON; charset=utf-8", "application/vnd.x+json"],
)
def test_json_and_nothing_are_taken_as_media_types(content_type):
    check_media_type(content_type)


@pytest.mark.parametrize(
    "content_type", ["text/xml", "text/plain", "application/x-www-form-urlencoded", "json"]
)
def test_other_media_types_are_refused(content_type):
    with pytest.raises(UnsupportedMediaTypeError):
        check_media_type(content_type)
