"""Which service and object a URI names, and how the request is written anew."""

from __future__ import annotations

import pytest

from floecat.credentials.authorities import S3Method
from floecat.credentials.s3_requests import S3Request, understood
from floecat.errors import BadRequestError, ForbiddenError

AWS = S3Method(region="eu-west-1")


def got(uri: str, method: S3Method = AWS) -> tuple[str, str]:
    found = understood(S3Request("GET", uri), method)
    return str(found.objects[0]), found.uri


@pytest.mark.parametrize(
    "uri",
    [
        "https://lake.s3.eu-west-1.amazonaws.com/t/data/a",
        "https://lake.s3.amazonaws.com/t/data/a",
        "https://s3.eu-west-1.amazonaws.com/lake/t/data/a",
        "https://s3-eu-west-1.amazonaws.com/lake/t/data/a",
        "https://s3.amazonaws.com:443/lake/t/%64ata/a",
        "https://LAKE.S3.amazonaws.com/t/data/a",
    ],
)
def test_objects_of_aws(uri: str) -> None:
    assert got(uri)[0] == "s3://lake/t/data/a"


@pytest.mark.parametrize(
    "uri",
    [
        "http://lake.s3.amazonaws.com/t/a",
        "https://lake.s3.eu-west-2.amazonaws.com/t/a",
        "https://lake.s3.amazonaws.com:8443/t/a",
        "https://lake.s3.amazonaws.com.example.com/t/a",
        "https://s3.amazonaws.com.example.com/lake/t/a",
        "https://example.com/lake/t/a",
        "https://lakes3.amazonaws.com/t/a",
        "https://lake.s3-accelerate.amazonaws.com/t/a",
        "https://lake.s3-accesspoint.eu-west-1.amazonaws.com/t/a",
        "https://sts.amazonaws.com/lake/t/a",
        "https://lake.s3.example.amazonaws.com/t/a",
    ],
)
def test_other_services(uri: str) -> None:
    with pytest.raises(ForbiddenError):
        got(uri)


@pytest.mark.parametrize(
    ("endpoint", "uri", "bucket"),
    [
        ("http://minio:9000", "http://minio:9000/lake/t/a", "lake"),
        ("http://minio:9000/", "http://lake.minio:9000/t/a", "lake"),
        ("http://minio", "http://minio:80/lake/t/a", "lake"),
        ("https://[::1]:9000", "https://[::1]:9000/lake/t/a", "lake"),
        ("http://minio:9000", "http://MINIO:9000/lake/t/a", "lake"),
    ],
)
def test_objects_of_another_service(endpoint: str, uri: str, bucket: str) -> None:
    found, written = got(uri, S3Method(endpoint=endpoint))
    assert found == f"s3://{bucket}/t/a"
    assert written.endswith("/t/a")
    assert got(written, S3Method(endpoint=endpoint))[0] == found


@pytest.mark.parametrize(
    "uri",
    [
        "http://minio:9001/lake/t/a",
        "https://minio:9000/lake/t/a",
        "http://xminio:9000/lake/t/a",
        "http://minio.example.com:9000/lake/t/a",
        "http://minio/lake/t/a",
    ],
)
def test_not_the_endpoint(uri: str) -> None:
    with pytest.raises(ForbiddenError):
        got(uri, S3Method(endpoint="http://minio:9000"))


@pytest.mark.parametrize(
    ("sent", "written"),
    [
        ("a%3D1/b", "a%3D1/b"),
        ("a=1/b", "a%3D1/b"),
        ("%61/b", "a/b"),
        ("a+b", "a%2Bb"),
        ("a%20b", "a%20b"),
        ("a%252Fb", "a%252Fb"),
        ("%C3%A9", "%C3%A9"),
        ("a~b", "a~b"),
    ],
)
def test_a_key_is_written_in_one_way(sent: str, written: str) -> None:
    assert got(f"https://s3.amazonaws.com/lake/t/{sent}")[1] == f"https://s3.amazonaws.com/lake/t/{written}"


def test_an_object_in_a_folder_that_is_spelled_otherwise_is_another_one() -> None:
    assert got("https://s3.amazonaws.com/lake/t%2Fa")[0] == "s3://lake/t/a"
    assert got("https://s3.amazonaws.com/lake/t%252Fa")[0] == "s3://lake/t%2Fa"
    with pytest.raises(BadRequestError):
        got("https://s3.amazonaws.com/lake/t/%252e%252e/a")


def test_a_bucket_is_in_the_host_where_the_service_looks_for_it_there() -> None:
    for is_path, uri in ((False, "http://lake.s3:9000/t/a"), (True, "http://s3:9000/lake/t/a")):
        method = S3Method(endpoint="http://s3:9000", path_style_access=is_path)
        assert got(uri, method) == ("s3://lake/t/a", uri)
    with pytest.raises(ForbiddenError, match="not one of"):
        got("http://lake.s3:9000/lake2/t/a", S3Method(endpoint="http://s3:9000", path_style_access=True))
    with pytest.raises(ForbiddenError, match="not one of"):
        got("http://.s3:9000/lake/t/a", S3Method(endpoint="http://s3:9000"))
