"""Signs requests of clients to S3, one by one: a client then needs no key, and each request is checked.

The keys that sign are cut to the table where the authority has a role, and else its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, Final, NamedTuple, cast
from uuid import UUID

import msgspec

from floecat.auth.authorizer import Privilege
from floecat.credentials.authorities import S3Method, Secrets, StorageAuthority
from floecat.credentials.aws_keys import DEFAULT_REGION, AwsKeyMaker
from floecat.credentials.key_cache import KeyCache
from floecat.credentials.s3_requests import S3Request, UnderstoodRequest, understood
from floecat.credentials.vending import ScopedAuthority, TablePlaces, Vending
from floecat.entries.areas import folders_above
from floecat.entries.calls import Call
from floecat.entries.names import missing_table
from floecat.entries.open_entries import EntryParts
from floecat.errors import BadRequestError, ForbiddenError, NotFoundError
from floecat.fileio.locations import Location
from floecat.iceberg.metadata.table_metadata import TableMetadata
from floecat.identifiers.encoding import physical_name
from floecat.identifiers.namespace import TableIdentifier
from floecat.store.entries import entry_paths, staged_tables
from floecat.store.entries.documents import decompress

__all__ = ["SignedRequest", "Signing"]

_NO_TABLE: Final = (
    "The principal does not have the privilege read_table on a table that has the object, or the request is"
    " none that is signed; to name the table, set s3.signer.endpoint to"
    " v1/{prefix}/namespaces/{namespace}/tables/{table}/sign"
)


class SignedRequest(NamedTuple):
    """A request as it is to be sent."""

    uri: str
    headers: Mapping[str, Sequence[str]]
    """Headers that are added to those of the client."""
    may_be_kept: bool
    """Whether the client may send it again, for other ranges of the same object."""


class Signing:
    """Signs what a caller may do with a table. Thread-safe."""

    def __init__(
        self,
        parts: EntryParts,
        vending: Vending,
        keys: KeyCache,
        aws: AwsKeyMaker,
        secrets: Callable[[StorageAuthority], Secrets],
    ) -> None:
        """Wires the service.

        Args:
            parts: look up tables, and those that are staged.
            vending: knows which authority is responsible for a table.
            keys: keys of authorities with a role.
            aws: finds the own keys of others.
            secrets: reads what an authority keeps secret.
        """
        self._parts = parts
        self._vending = vending
        self._keys = keys
        self._aws = aws
        self._secrets = secrets

    def sign(self, call: Call, identifier: TableIdentifier, request: S3Request) -> SignedRequest:
        """Signs a request about files of a table.

        Raises:
            BadRequestError: the request is malformed, or too large, or no authority is responsible.
            ForbiddenError: the principal may not read the table, or not write it. Or the request is about
                other objects, or does what is never signed.
            NoSuchTableError: the table does not exist.
            AuthorityError: the authority has no keys now.
        """
        call = _signing(call)
        entry = self._parts.entries.find_table(call, identifier, Privilege.READ_TABLE)
        places = [TablePlaces.of_entry(entry)] if entry is not None else self._staged(call, identifier)
        return self._sign(call, identifier, places, request)

    def sign_by_object(
        self, account_id: UUID, opened: Callable[[str], Call], request: S3Request
    ) -> SignedRequest:
        """Signs a request about files of the table of an account in whose locations they are.

        Clients of before name no table. One that is only staged is not found.

        Args:
            account_id: the account.
            opened: opens a call on a catalog of the account by its name.
            request: what is to be signed.

        Raises:
            ForbiddenError: the objects are in no table that the principal may read; or as `sign`.
            FloecatError: as `sign`.
        """
        for method in self._vending.signing_methods(account_id):
            try:
                place = understood(request, method).objects[0]
            except ForbiddenError:
                continue
            with self._parts.store.read() as conn:
                found = entry_paths.table_of(conn, account_id, folders_above(place))
            if found is None:
                continue
            catalog, identifier = found
            try:
                call = _signing(opened(catalog))
                entry = self._parts.entries.find_table(call, identifier, Privilege.READ_TABLE)
            except (ForbiddenError, NotFoundError):
                break  # what it is named is told to nobody who may not read it
            if entry is not None:
                return self._sign(call, identifier, [TablePlaces.of_entry(entry)], request)
        raise ForbiddenError(_NO_TABLE)

    def _sign(
        self, call: Call, identifier: TableIdentifier, places: Sequence[TablePlaces], request: S3Request
    ) -> SignedRequest:
        refused: ForbiddenError | None = None
        scopes = ((each, scoped) for each in places for scoped in self._vending.signed_scopes(call, each))
        for table, scoped in scopes:
            method = cast("S3Method", scoped.authority.method)
            try:
                found = understood(request, method)
                _check(found, scoped.scope.locations, identifier)
            except ForbiddenError as error:
                refused = error
                continue
            if found.writes and not table.may_write:
                raise call.refusal((Privilege.WRITE_TABLE, call.on_entry("table", identifier)))
            if found.by_body and method.role_arn is None:
                # not every service compares the body with the hash that is signed
                raise ForbiddenError(
                    f"Deletes of many objects are signed where the storage authority"
                    f" ({scoped.authority.name}) has a role; delete one object at a time"
                )
            if self._vending.holds_others(call, table, [scoped]):
                raise ForbiddenError(
                    f"Requests about {identifier} are not signed: another table or view lies in its locations"
                    " (floecat.storage.overlapping-locations)"
                )
            return _signed(found, method.region or DEFAULT_REGION, self._credentials(scoped))
        raise refused or BadRequestError(f"No storage authority signs requests about {identifier}")

    def _staged(self, call: Call, identifier: TableIdentifier) -> list[TablePlaces]:
        """The places of tables that the principal has staged under a name: it writes their files first."""
        with self._parts.store.read() as conn:
            namespace = physical_name(identifier.namespace)
            now_ms = self._parts.clock.now_ms()
            rows = staged_tables.find(conn, call.catalog.id, namespace, identifier.name, now_ms)
        own = [
            TableMetadata.parse(decompress(row.body)) for row in rows if row.principal == call.principal.name
        ]
        if not own:
            raise missing_table(identifier)
        call.check((Privilege.CREATE_TABLE, call.on_entry("table", identifier)))
        return [self._vending.places_of_new(call, each) for each in own]

    def _credentials(self, scoped: ScopedAuthority) -> Any:
        from botocore.credentials import ReadOnlyCredentials

        authority = scoped.authority
        if cast("S3Method", authority.method).role_arn is None:
            return self._aws.own(authority, self._secrets(authority))
        config = self._keys.get(authority, scoped.scope).keys.config
        return ReadOnlyCredentials(
            config["s3.access-key-id"], config["s3.secret-access-key"], config["s3.session-token"]
        )


def _signing(call: Call) -> Call:
    return msgspec.structs.replace(call, delegation=frozenset({"signing"}))


def _check(request: UnderstoodRequest, locations: Sequence[Location], identifier: TableIdentifier) -> None:
    """Refuses a request about an object that is not in a folder of the table."""
    for each in (*request.objects, *request.sources):
        if not any(
            folder.contains(each) and (folder != each or request.lists_folder) for folder in locations
        ):
            raise ForbiddenError(
                f"The object is not in a location of {identifier}: the request is not signed"
            )


def _signed(request: UnderstoodRequest, region: str, credentials: Any) -> SignedRequest:
    from botocore.awsrequest import AWSRequest

    made = AWSRequest(request.method, request.uri, dict(request.headers))
    made.context["payload"] = request.payload
    _signer()(credentials, "s3", region).add_auth(made)
    sent = {name.lower() for name in request.headers}
    added = {name: [value] for name, value in made.headers.items() if name.lower() not in sent}
    return SignedRequest(request.uri, added, may_be_kept=not (request.writes or request.lists))


@cache
def _signer() -> Any:
    from botocore.auth import S3SigV4Auth

    class Signer(S3SigV4Auth):  # type: ignore[misc]
        """Signs the hash that was checked: it sees no body."""

        def payload(self, request: Any) -> str:
            return str(request.context["payload"])

    return Signer
