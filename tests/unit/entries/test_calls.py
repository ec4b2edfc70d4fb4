from __future__ import annotations

from uuid import UUID

import pytest

from floecat.auth.authorizer import AllowAll
from floecat.auth.principals import Principal
from floecat.entries.calls import Call, Catalog, canonical_json, with_request_key
from floecat.errors import BadRequestError
from tests.storages import storage_at

CALL = Call(
    Principal("anna", UUID(int=1)),
    AllowAll(),
    Catalog(UUID(int=2), UUID(int=1), "floecat", "s3://lake", storage_at(["s3://lake"])),
)


def request_hash(*, operation="updateTable", target=(b"/v1/t", b"a=b"), body=b"{}"):
    request = with_request_key(CALL, "key", operation, target, body).request
    assert (request.key, request.operation) == ("key", operation)
    return request.request_hash


def test_a_call_without_a_key_is_the_same_call():
    assert with_request_key(CALL, None, "updateTable", (b"/v1/t",), b"{}") is CALL


def test_a_hash_stays_what_other_versions_of_the_service_stored():
    assert request_hash() == "dd70b27141fa80c66be8e43f928b6c1ce73a2b99527f78963f6f1328c1f0ace0"


def test_each_part_of_a_request_counts():
    hashes = {
        request_hash(),
        request_hash(operation="createTable"),
        request_hash(target=(b"/v1/u", b"a=b")),
        request_hash(target=(b"/v1/t", b"")),
        request_hash(target=(b"/v1/ta", b"=b")),
        request_hash(body=b'{"a": 1}'),
        request_hash(body=b""),
    }
    assert len(hashes) == 7
    assert request_hash(body=b'{"b":1, "a":2}') == request_hash(body=b'{"a":2,"b":1}')


@pytest.mark.parametrize("key", ["", "k" * 256, "a\nb", "\x00", "\x85"])
def test_a_key_that_cannot_be_stored_is_refused(key):
    with pytest.raises(BadRequestError, match="Invalid Idempotency-Key"):
        with_request_key(CALL, key, "updateTable", (), b"")


@pytest.mark.parametrize("key", ["k", "k" * 255, "0190a1b2-0000-7000-8000-000000000001", "ключ"])
def test_other_keys_are_taken(key):
    assert with_request_key(CALL, key, "updateTable", (), b"").request.key == key


def test_equal_requests_have_equal_canonical_forms():
    assert canonical_json(b'{"b": [1, {"d":1,"c":2}], "a":"\\u00e9"}') == canonical_json(
        '{"a":"é","b":[1,{"c":2,"d":1}]}'.encode()
    )
    assert canonical_json(b"[1,2]") != canonical_json(b"[2,1]")


@pytest.mark.parametrize("body", [b"", b"{", b"\xff", b"[" * 100_000])
def test_what_is_no_json_is_its_own_canonical_form(body):
    assert canonical_json(body) == body
