from __future__ import annotations

import asyncio
import gzip
import json

import pytest

from floecat.memory_budget import LruCache
from floecat_rest.http.documents import Documents, accepts_gzip
from tests.unit.rest.asgi import ask, http_scope

SMALL = b'{"format-version":2,"x":"\xc3\xa9"}'
LARGE = json.dumps({"snapshots": [{"snapshot-id": number} for number in range(40_000)]}).encode()
VARY = "Accept-Encoding, X-Iceberg-Access-Delegation"
LOCATION = "s3://bucket/t/metadata/1.json"


def send(response):
    return asyncio.run(ask(response, http_scope("/")))


@pytest.fixture
def cache():
    return LruCache(1 << 20, largest=1 << 18)


@pytest.fixture
def documents(cache):
    return Documents(cache)


def test_what_keys_take_in_memory_counts(documents, cache):
    config = {"s3.session-token": "x" * 10_000}
    documents.answer((LARGE,), LOCATION, "gzip", config=config, kept_as="1")
    assert cache.size > 10_000 + len(gzip.compress(LARGE, 9))


def test_the_stored_bytes_are_sent_untouched(documents):
    answer = send(documents.answer((SMALL,), LOCATION, None, config={"s3.region": "x"}, etag='W/"1"'))
    assert answer.body == b'{"metadata-location":"%b","metadata":%b,"config":{"s3.region":"x"}}' % (
        LOCATION.encode(),
        SMALL,
    )
    assert answer.headers == {
        "content-type": "application/json",
        "content-length": str(len(answer.body)),
        "ETag": 'W/"1"',
        "vary": VARY,
    }


def test_a_commit_answers_without_config(documents):
    assert json.loads(send(documents.answer((SMALL,), LOCATION, None)).body) == {
        "metadata-location": LOCATION,
        "metadata": json.loads(SMALL),
    }


def test_a_staged_table_has_no_location_and_no_tag(documents):
    answer = send(documents.answer((SMALL,), None, None, config={}))
    assert json.loads(answer.body)["metadata-location"] is None
    assert "ETag" not in answer.headers


def test_a_small_answer_is_one_message_and_a_large_one_is_not_copied(documents):
    assert len(send(documents.answer((SMALL,), LOCATION, None)).bodies) == 1
    prefix, document, suffix = send(documents.answer((LARGE,), LOCATION, None)).bodies
    assert document is LARGE
    assert len(prefix) + len(suffix) < 100


def test_gzip_when_asked_for(documents):
    plain = send(documents.answer((LARGE,), LOCATION, None, config={}))
    packed = send(documents.answer((LARGE,), LOCATION, "br, gzip", config={}))
    assert packed.headers["content-encoding"] == "gzip"
    assert packed.headers["vary"] == VARY
    assert int(packed.headers["content-length"]) == len(packed.body) < len(plain.body) / 4
    assert gzip.decompress(packed.body) == plain.body


def test_a_tiny_document_is_not_compressed(documents):
    assert "content-encoding" not in send(documents.answer((SMALL,), LOCATION, "gzip")).headers


def test_a_document_is_compressed_once(documents):
    first, second = (
        send(documents.answer((LARGE,), LOCATION, "gzip", kept_as="state")).bodies[0] for _ in range(2)
    )
    assert first is second


@pytest.mark.parametrize(
    "other",
    [
        {"mode": "refs"},
        {"config": {"s3.region": "elsewhere"}},
        {"metadata_location": "s3://bucket/t/metadata/2.json"},
        {"kept_as": "another state", "pieces": (LARGE.replace(b"1", b"2"),)},
    ],
)
def test_compressed_answers_are_not_mixed_up(documents, other):
    same = {
        "pieces": (LARGE,),
        "metadata_location": LOCATION,
        "accept_encoding": "gzip",
        "config": {},
        "kept_as": "state",
    }
    one, two = send(documents.answer(**same)), send(documents.answer(**same | other))
    assert one.bodies[0] is not two.bodies[0]
    assert (
        gzip.decompress(two.body) == send(documents.answer(**same | other | {"accept_encoding": None})).body
    )


def test_pieces_are_sent_as_they_are(documents):
    pieces = (b'{"snapshots":[', LARGE, LARGE, b"]}")
    plain = send(documents.answer(pieces, LOCATION, None))
    assert plain.bodies[1:-1] == list(pieces)
    assert gzip.decompress(send(documents.answer(pieces, LOCATION, "gzip")).body) == plain.body


def test_a_staged_table_is_not_kept(documents):
    one, two = (send(documents.answer((LARGE,), None, "gzip")) for _ in range(2))
    assert one.bodies[0] is not two.bodies[0]


def test_304_has_no_body(documents):
    answer = send(documents.not_modified('W/"1"'))
    assert answer == (304, {"ETag": 'W/"1"', "vary": VARY}, [b""])


@pytest.mark.parametrize(
    ("header", "accepted"),
    [
        (None, False),
        ("", False),
        ("gzip", True),
        ("GZIP", True),
        ("deflate, gzip;q=0.5", True),
        ("gzip;q=0", False),
        ("gzip; q=0.0, *", False),
        ("*", True),
        ("identity", False),
        ("br", False),
        ("gzip;q=x", False),
        ("gzip;q=0.001", True),
        ("gzip;q=1_0", False),
        ("gzip;q=inf", False),
        ("gzip;q=٣", False),
        ("gzip" + ", br" * 249, True),
        ("gzip" + ", br" * 250, False),
    ],
)
def test_accept_encoding(header, accepted):
    assert accepts_gzip(header) is accepted
