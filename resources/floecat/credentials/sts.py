"""Requests to the AWS Security Token Service, and what it answers. Whoever asks sends them."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Mapping
from typing import Any, Final

__all__ = ["STS_VERSION", "answer_texts", "signed_headers", "sts_endpoint"]

STS_VERSION: Final = "2011-06-15"


def sts_endpoint(region: str) -> str:
    """The service of a region."""
    domain = "amazonaws.com.cn" if region.startswith("cn-") else "amazonaws.com"
    return f"https://sts.{region}.{domain}/"


def signed_headers(
    keys: Any,
    region: str,
    service: str,
    method: str,
    url: str,
    headers: Mapping[str, str],
    body: bytes | None,
) -> Mapping[str, str]:
    """The headers of a request to a service of AWS, with its signature (Signature Version 4).

    Args:
        keys: of botocore.
    """
    from botocore.auth import SigV4Auth
    from botocore.awsrequest import AWSRequest

    request = AWSRequest(method, url, dict(headers), body)
    SigV4Auth(keys, service, region).add_auth(request)
    return dict(request.headers.items())


def answer_texts(body: bytes) -> Mapping[str, str]:
    """The texts of an answer by the names of their elements; none if it is no XML.

    Args:
        body: within a bound, and of a service that an operator allows.
    """
    try:
        root = ET.fromstring(body)  # noqa: S314 - see above
    except ET.ParseError:
        return {}
    return {each.tag.rpartition("}")[2]: (each.text or "").strip() for each in root.iter()}
