from __future__ import annotations

import msgspec
import pytest


def config(client, warehouse=None):
    return client.get("/v1/config", params={} if warehouse is None else {"warehouse": warehouse})


def test_without_a_warehouse_the_default_catalog_is_meant(client):
    answer = config(client).json()
    assert answer["defaults"] == {"prefix": "floecat", "gravitino.schema.separator": ":"}
    assert answer["overrides"].keys() == {"namespace-separator", "floecat.catalog-id"}
    assert answer["overrides"]["namespace-separator"] == "%1F"
    assert answer["idempotency-key-lifetime"] == "PT30M"
    assert config(client, "").json() == answer


def test_a_known_name_binds_the_prefix(client):
    answer = config(client, "floecat").json()
    assert answer["defaults"]["prefix"] == answer["overrides"]["prefix"] == "floecat"


def test_a_location_leaves_the_clients_own_prefix_alone(client, settings):
    answer = config(client, f"{settings.warehouse_location}/somewhere").json()
    assert answer["defaults"]["prefix"] == "floecat"
    assert "prefix" not in answer["overrides"]


@pytest.mark.parametrize("warehouse", ["nowhere", "s3://elsewhere/warehouse", "file:///"])
def test_an_unknown_warehouse_is_404(client, warehouse):
    answer = config(client, warehouse)
    assert answer.status_code == 404
    assert answer.json()["error"]["type"] == "NoSuchWarehouseException"


def test_the_lifetime_of_keys_is_the_one_that_is_set(start, settings):
    from floecat.settings import Duration

    gateway = msgspec.structs.replace(settings.gateway, idempotency_key_lifetime=Duration(3_600_000))
    client = start(msgspec.structs.replace(settings, gateway=gateway))
    assert config(client).json()["idempotency-key-lifetime"] == "PT1H"


@pytest.mark.parametrize(
    ("location", "bound"),
    [("file:///w/%" + "25" * 2000, "percent-decoding-levels"), ("s3://b/" + "x" * 9000, "location-bytes")],
)
def test_a_location_beyond_a_bound_is_refused_by_the_bound(client, location, bound):
    answer = config(client, location)
    assert answer.status_code == 400
    assert f"floecat.limits.{bound}" in answer.json()["error"]["message"]
