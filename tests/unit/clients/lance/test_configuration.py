from __future__ import annotations

import os
import pickle
from typing import Any

import lance_namespace
import pytest

from floecat.clients.lance import IcebergRestNamespace
from floecat.clients.lance.configuration import Configuration

ENDPOINT = {"endpoint": "https://catalog.example/"}


def test_defaults_are_those_of_the_specification():
    found = Configuration.parse(ENDPOINT)
    assert found == Configuration(
        endpoint="https://catalog.example",
        warehouse=None,
        auth_token=None,
        credential=None,
        oauth2_server_uri="https://catalog.example/v1/oauth/tokens",
        scope="catalog",
        connect_timeout_ms=10_000,
        read_timeout_ms=30_000,
        max_retries=3,
        max_answer_bytes=256 << 20,
        max_pages=10_000,
        root=os.getcwd(),
    )


def test_numbers_may_be_texts_and_a_secret_may_hold_colons():
    found = Configuration.parse(
        {**ENDPOINT, "connect_timeout": "5", "read_timeout": 6, "max_retries": "0", "credential": "me:a:b"}
    )
    assert (found.connect_timeout_ms, found.read_timeout_ms, found.max_retries) == (5, 6, 0)
    assert found.credential == ("me", "a:b")


@pytest.mark.parametrize(
    ("root", "expected"),
    [
        ("s3://lake/tables/", "s3://lake/tables"),
        ("/data/lake/", "/data/lake"),
        ("lake", f"{os.getcwd()}/lake"),
        ("file:/data/lake", "file:/data/lake"),
        ("", ""),
    ],
)
def test_root(root: str, expected: str):
    assert Configuration.parse({**ENDPOINT, "root": root}).root == expected


@pytest.mark.parametrize(
    ("properties", "message"),
    [
        ({}, "'endpoint' is required"),
        ({"endpoint": "catalog.example"}, "must start with http:// or https://"),
        ({"endpoint": "ftp://catalog.example"}, "must start with http:// or https://"),
        ({"endpoint": "http://"}, "name a host"),
        ({"endpoint": "http://me:hush@catalog.example"}, "must not hold a password"),
        ({**ENDPOINT, "oauth2_server_uri": "issuer.example"}, "'oauth2_server_uri' must start with http"),
        ({**ENDPOINT, "credential": "hush"}, "client_id:client_secret"),
        ({**ENDPOINT, "connect_timeout": "soon"}, "'connect_timeout' must be a whole number, at least 1"),
        ({**ENDPOINT, "read_timeout": 0}, "'read_timeout' must be a whole number, at least 1"),
        ({**ENDPOINT, "max_retries": True}, "'max_retries' must be a whole number, at least 0"),
        ({**ENDPOINT, "warehouse": 1}, "'warehouse' must be text"),
        ({**ENDPOINT, "auth_token": "hush\n"}, "'auth_token' must be printable"),
        ({**ENDPOINT, "warehose": "w"}, "Unknown property 'warehose'"),
    ],
)
def test_refused(properties: dict[str, Any], message: str):
    with pytest.raises(ValueError, match=message) as caught:
        IcebergRestNamespace(**properties)
    assert "hush" not in str(caught.value)


@pytest.mark.parametrize("name", ["iceberg-rest", "floecat.clients.lance.IcebergRestNamespace"])
def test_connects_by_name_and_by_class_path(name: str):
    assert isinstance(lance_namespace.connect(name, dict(ENDPOINT)), IcebergRestNamespace)


def test_the_id_tells_connections_apart_and_holds_no_secret():
    variants: list[dict[str, object]] = [
        {},
        {"warehouse": "w"},
        {"credential": "me:hush"},
        {"auth_token": "hush"},
        {"auth_token": "hushhush"},
    ]
    ids = [IcebergRestNamespace(**ENDPOINT, **each).namespace_id() for each in variants]
    assert len(set(ids)) == len(ids)
    assert not any("hush" in each for each in ids)
    assert "hush" not in repr(
        Configuration.parse({**ENDPOINT, "credential": "me:hush", "auth_token": "hush"})
    )


def test_travels_to_other_processes():
    namespace = IcebergRestNamespace(**ENDPOINT, credential="me:hush")
    assert pickle.loads(pickle.dumps(namespace)).namespace_id() == namespace.namespace_id()
