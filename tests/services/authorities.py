"""Storage authorities of an S3 server, put into the store of a kernel."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import uuid_utils.compat as uuids

from floecat.credentials.authorities import KeyMethod, S3Method, StorageAuthority
from floecat.credentials.known_authorities import read_authority
from floecat.runtime import Kernel, open_kernel, prepare_store
from floecat.settings import load_settings
from floecat.store.access import grants
from floecat.store.catalogs import storage_authorities
from floecat.store.catalogs.storage_authorities import AuthorityRow
from tests.services.s3 import S3Server

__all__ = ["add_authority", "change_authority", "prepare_authority", "prepare_cloud_authority", "s3_method"]


def s3_method(server: S3Server, **changes: Any) -> S3Method:
    """How a server makes keys: by its role, with the keys of the server's own user."""
    given: dict[str, Any] = {
        "access_key_id": server.access_key_id,
        "role_arn": server.role_arn,
        "region": server.region,
        "endpoint": server.endpoint,
        "path_style_access": True,
    }
    return S3Method(**{**given, **changes})


def add_authority(
    kernel: Kernel, server: S3Server, prefix: str, name: str = "lake", **changes: Any
) -> StorageAuthority:
    """An authority of the default account; changes are of its method."""
    secrets = {"secret-access-key": server.secret_access_key}
    return _add(kernel, prefix, name, s3_method(server, **changes), secrets)


def prepare_authority(
    data_dir: Path, environment: Mapping[str, str], server: S3Server, prefix: str, **changes: Any
) -> None:
    """Makes the store of a service that is not started yet, with an authority."""
    secrets = {"secret-access-key": server.secret_access_key}
    prepare_cloud_authority(data_dir, environment, prefix, s3_method(server, **changes), secrets)


def prepare_cloud_authority(
    data_dir: Path,
    environment: Mapping[str, str],
    prefix: str,
    method: KeyMethod,
    secrets: Mapping[str, str],
) -> None:
    """Makes the store of a service that is not started yet, with an authority of any kind."""
    settings = load_settings(environ=environment, overrides={"floecat.data-dir": str(data_dir)})
    prepare_store(settings)
    kernel = open_kernel(settings)
    _add(kernel, prefix, "lake", method, secrets)
    kernel.close()


def _add(
    kernel: Kernel, prefix: str, name: str, method: KeyMethod, secrets: Mapping[str, str]
) -> StorageAuthority:
    authority_id = uuids.uuid7()
    row = AuthorityRow(
        authority_id,
        kernel.settings.gateway.default_account_id,
        name,
        prefix,
        msgspec.json.encode(method).decode(),
        True,
        kernel.credentials.secrets.encrypt(authority_id, secrets),
        1,
        0,
        0,
    )
    with kernel.store.write() as conn:
        storage_authorities.insert(conn, row)
        grants.count_version(conn, row.account_id)
    return read_authority(row)


def change_authority(kernel: Kernel, name: str = "lake", **changes: Any) -> None:
    """Changes the row of an authority of the default account."""
    account_id = kernel.settings.gateway.default_account_id
    with kernel.store.write() as conn:
        [row] = [each for each in storage_authorities.of_account(conn, account_id) if each.name == name]
        storage_authorities.update(conn, msgspec.structs.replace(row, **changes))
        grants.count_version(conn, account_id)
