"""A table that was made in Polaris is registered in Floecat and read there. Runs in the image, see run.sh."""

from __future__ import annotations

import json
import os
import urllib.request

import pyarrow as pa
from pyiceberg.catalog import load_catalog

POLARIS = os.environ.get("POLARIS_URL", "http://polaris:8181")
FLOECAT = os.environ.get("FLOECAT_URL", "http://floecat:9200")
S3 = {
    "s3.endpoint": os.environ["FLOECAT_STORAGE_AWS_S3_ENDPOINT"],
    "s3.access-key-id": os.environ["FLOECAT_STORAGE_AWS_S3_ACCESS_KEY_ID"],
    "s3.secret-access-key": os.environ["FLOECAT_STORAGE_AWS_S3_SECRET_ACCESS_KEY"],
    "s3.region": "us-east-1",
}
LOCATION = "s3://lake/warehouse/polaris"


def _create_catalog() -> None:
    form = b"grant_type=client_credentials&client_id=root&client_secret=smoke-secret&scope=PRINCIPAL_ROLE:ALL"
    with urllib.request.urlopen(f"{POLARIS}/api/catalog/v1/oauth/tokens", form) as answer:
        token = json.load(answer)["access_token"]
    storage = {
        "storageType": "S3",
        "allowedLocations": [LOCATION],
        "roleArn": "arn:aws:iam::000000000000:role/x",
    }
    catalog = {"type": "INTERNAL", "name": "polaris", "storageConfigInfo": storage}
    catalog["properties"] = {"default-base-location": LOCATION}
    request = urllib.request.Request(
        f"{POLARIS}/api/management/v1/catalogs",
        json.dumps({"catalog": catalog}).encode(),
        {"Authorization": f"Bearer {token}", "Content-Type": "application/json"},
    )
    urllib.request.urlopen(request).close()


def main() -> None:
    """Write in one catalog, read in the other."""
    _create_catalog()
    upstream = load_catalog(
        "polaris",
        type="rest",
        uri=f"{POLARIS}/api/catalog",
        warehouse="polaris",
        credential="root:smoke-secret",
        scope="PRINCIPAL_ROLE:ALL",
        **S3,
    )
    upstream.create_namespace("ns")
    rows = pa.table({"id": [1, 2, 3]})
    table = upstream.create_table("ns.orders", rows.schema)
    table.append(rows)
    here = load_catalog("floecat", type="rest", uri=FLOECAT, warehouse="floecat", **S3)
    here.create_namespace_if_not_exists("from_polaris")
    registered = here.register_table("from_polaris.orders", table.metadata_location)
    count = registered.scan().to_arrow().num_rows
    if count != rows.num_rows:
        raise SystemExit(f"{count} rows instead of {rows.num_rows}")
    print("The table of Polaris reads as written")


if __name__ == "__main__":
    main()
