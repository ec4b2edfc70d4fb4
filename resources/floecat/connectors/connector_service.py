"""Connectors of a catalog: creation, listing, removal. `floecat.connectors.scanning.scans` scans them."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final
from uuid import UUID

import msgspec
import uuid_utils.compat as uuids

from floecat.auth.authorizer import Privilege
from floecat.clock import Clock
from floecat.connectors.connector_info import (
    ConnectorInfo,
    ConnectorPolicy,
    ConnectorState,
    ConnectorUpdate,
    NewConnector,
    ScanProgress,
)
from floecat.connectors.logins import MASK, check_credentials, masked
from floecat.connectors.registry import ConnectorRegistry
from floecat.connectors.selection import Selection
from floecat.connectors.spi import ChecksRoot, Connector, ConnectorSource
from floecat.credentials.secrets import Encryption, SecretsError
from floecat.entries.calls import Call, Page
from floecat.entries.idempotency_keys import Finish, IdempotencyKeys, JsonAnswer
from floecat.errors import AlreadyExistsError, BadRequestError, ConflictError, FloecatError, NotFoundError
from floecat.identifiers.namespace import check_name, check_namespace
from floecat.settings import ConnectorSettings
from floecat.store import page_tokens
from floecat.store.catalogs import connectors
from floecat.store.catalogs.connectors import ConnectorRow
from floecat.store.commits.confirmed_transactions import ConfirmedTransactions, leave_trace
from floecat.store.database.engine import Connection, Store
from floecat.store.database.errors import DuplicateKeyError
from floecat.store.entries import followed_entries
from floecat.store.jobs import jobs
from floecat.store.record_pages import fetch_records

__all__ = [
    "SCAN_JOB",
    "ConnectorService",
    "described_fault",
    "missing_connector",
]

_log = logging.getLogger(__name__)

SCAN_JOB: Final = "connector-scan"
"""Kind of the jobs of scheduled scans."""

MIN_INTERVAL_MS = 10_000
"""Shortest time between two scheduled scans."""

_MAX_OPTIONS_CHARACTERS = 64 * 1024


class ConnectorService:
    """Connectors by name."""

    def __init__(
        self,
        store: Store,
        transactions: ConfirmedTransactions,
        clock: Clock,
        keys: IdempotencyKeys,
        registry: ConnectorRegistry,
        encryption: Encryption,
        settings: ConnectorSettings,
        *,
        reserved: str,
        most: int,
    ) -> None:
        """Puts the service together.

        Args:
            encryption: of credentials.
            settings: what connectors may connect to.
            reserved: characters that no namespace level may hold.
            most: connectors of a catalog.
        """
        self._encryption = encryption
        self._settings = settings
        self._store = store
        self._transactions = transactions
        self._clock = clock
        self._keys = keys
        self._registry = registry
        self._reserved = reserved
        self._most = most

    def create(self, call: Call, wanted: NewConnector) -> ConnectorInfo:
        """Creates a connector. Nothing is scanned yet; the first scheduled scan is due at once.

        Raises:
            BadRequestError: a name, the kind, an option or the interval is malformed.
            LocationNotAllowedError: the location lies outside the allowed ones.
            AlreadyExistsError: the catalog has a connector of this name.
            ConflictError: it has too many.
            CommitStateUnknownError: it may have been created.
        """
        needed = (Privilege.MANAGE_CONNECTORS, call.on_catalog())

        def work(finish: Finish[ConnectorInfo]) -> ConnectorInfo:
            call.check(needed)
            row = self._row(call, wanted)
            made = self._info(row)

            def insert(conn: Connection, transaction_id: UUID) -> None:
                if connectors.count(conn, call.catalog.id) >= self._most:
                    raise ConflictError(
                        f"The catalog has {self._most} connectors already (floecat.limits.connectors)"
                    )
                connectors.insert(conn, row)
                leave_trace(conn, transaction_id, row.created_at_ms)
                finish(conn, made)

            try:
                self._transactions.run(call.catalog.id, insert)
            except DuplicateKeyError:
                raise AlreadyExistsError(f"Connector already exists: {row.name}") from None
            return made

        return self._keys.run(call, JsonAnswer(ConnectorInfo), work, needed)

    def list(self, call: Call) -> list[ConnectorInfo]:
        """The connectors of the catalog, by name.

        Raises:
            ForbiddenError: the principal may not read them.
        """
        call.check((Privilege.READ_CONNECTORS, call.on_catalog()))
        with self._store.read() as conn:
            return [self._info(row) for row in connectors.list_all(conn, call.catalog.id)]

    def page(self, call: Call, token: str | None, limit: int) -> Page[ConnectorInfo]:
        """A page of the connectors of the catalog, by name, as large as one answer may be.

        Args:
            token: of the page before; None or empty for the first.
            limit: most connectors.

        Raises:
            ForbiddenError: the principal may not read them.
            BadRequestError: the token is of another listing.
            WorkingMemoryError: others held the memory all the time.
        """
        call.check((Privilege.READ_CONNECTORS, call.on_catalog()))
        id = call.catalog.id
        scope = f"connectors {id}"
        after = page_tokens.decode(token, scope) if token else None
        found = fetch_records(
            self._store,
            lambda conn, count: connectors.sizes(conn, id, after, count),
            lambda conn, count: connectors.list_all(conn, id, after, count),
            limit,
        )
        next_token = page_tokens.encode(found.rows[-1].name, scope) if found.has_more else None
        return Page([self._info(row) for row in found.rows], next_token)

    def states(self) -> Sequence[ConnectorState]:
        """The connectors of all accounts, by the names of their catalogs; for operators."""
        with self._store.read() as conn:
            return [ConnectorState(*row) for row in followed_entries.counts(conn)]

    def load(self, call: Call, name: str) -> ConnectorInfo:
        """A connector.

        Raises:
            NotFoundError: there is none of this name.
        """
        row = self.find(call, name, Privilege.READ_CONNECTORS)
        with self._store.read() as conn:
            scans = jobs.list_open(conn, SCAN_JOB, str(row.id))
        running = [
            msgspec.json.decode(scan.progress, type=ScanProgress) for scan in scans if scan.state == "running"
        ]
        return msgspec.structs.replace(self._info(row), running_scan=next(iter(running), None))

    def update(self, call: Call, name: str, wanted: ConnectorUpdate) -> ConnectorInfo:
        """Changes a connector, from its next scan on.

        Raises:
            NotFoundError: there is none of this name.
            BadRequestError: an option, a credential or the interval is malformed.
            CommitStateUnknownError: it may have been changed.
        """
        needed = (Privilege.MANAGE_CONNECTORS, call.on_catalog())

        def work(finish: Finish[ConnectorInfo]) -> ConnectorInfo:
            old = self.find(call, name, Privilege.MANAGE_CONNECTORS)
            credentials = wanted.credentials
            row = msgspec.structs.replace(
                old,
                options=old.options if wanted.options is None else dict(wanted.options),
                credentials=old.credentials if credentials is None else self._encrypted(old.id, credentials),
                enabled=old.enabled if wanted.enabled is None else wanted.enabled,
                interval_ms=old.interval_ms if wanted.interval_ms is None else wanted.interval_ms,
                policy=_policy({**msgspec.to_builtins(old.policy), **(wanted.policy or {})}),
                updated_at_ms=self._clock.now_ms(),
            )
            due_ms = min(row.next_scan_at_ms, row.updated_at_ms + row.interval_ms)
            row = msgspec.structs.replace(row, next_scan_at_ms=max(due_ms, row.policy.not_before_ms or 0))
            _check_interval(row.interval_ms)
            _check_options(row.options)
            self.open(call, row)
            made = self._info(row)

            def change(conn: Connection, transaction_id: UUID) -> None:
                if not connectors.update(conn, row, row.updated_at_ms):
                    raise missing_connector(name)
                leave_trace(conn, transaction_id, row.updated_at_ms)
                finish(conn, made)

            self._transactions.run(call.catalog.id, change)
            return made

        return self._keys.run(call, JsonAnswer(ConnectorInfo), work, needed)

    def drop(self, call: Call, name: str) -> None:
        """Removes a connector; the tables that it found stay.

        Raises:
            NotFoundError: there is none of this name.
            CommitStateUnknownError: it may have been removed.
        """

        def work(finish: Finish[None]) -> None:
            call.check((Privilege.MANAGE_CONNECTORS, call.on_catalog()))

            def delete(conn: Connection, transaction_id: UUID) -> None:
                row = connectors.find(conn, call.catalog.id, name)
                if row is None or not connectors.delete(conn, row.id):
                    raise missing_connector(name)
                leave_trace(conn, transaction_id, self._clock.now_ms())
                finish(conn, None)

            self._transactions.run(call.catalog.id, delete)

        self._keys.run(call, JsonAnswer(type(None)), work)

    def find(self, call: Call, name: str, privilege: Privilege) -> ConnectorRow:
        """The row of a connector.

        Raises:
            ForbiddenError: the principal does not have the privilege on the catalog.
            NotFoundError: there is none of this name.
        """
        call.check((privilege, call.on_catalog()))
        with self._store.read() as conn:
            row = connectors.find(conn, call.catalog.id, name)
        if row is None:
            raise missing_connector(name)
        return row

    def open(
        self, call: Call, row: ConnectorRow, looks_into: Callable[[str], None] = lambda _location: None
    ) -> Connector:
        """The connector of a row, which looks for tables.

        Args:
            row: the connector.
            looks_into: called with each folder that it looks into.

        Raises:
            BadRequestError: the kind or an option is not known any more, or the class of the kind fails.
            LocationNotAllowedError: the location is not allowed any more.
            SettingsError: the class of the kind cannot be imported, or is no connector.
            SecretsError: no key decrypts its credentials.
        """
        kind = self._registry.get(row.kind)
        if row.policy.takes_metadata and getattr(kind, "only_captures", False):
            raise BadRequestError(f"Invalid policy: a connector of kind {row.kind} has mode=capture-only")
        if getattr(kind, "location_is_storage", True):
            call.catalog.allowed.check(row.location)
        source = ConnectorSource(
            row.location,
            row.options,
            call.catalog.storage,
            credentials=self._credentials(row),
            allowed_hosts=self._settings.allowed_hosts,
            ca_file=self._settings.ca_file,
            token_commands=self._settings.token_commands,
            catalog_id=str(call.catalog.id),
            selection=Selection(row.policy),
            looks_into=looks_into,
        )
        try:
            return kind(source)
        except FloecatError:
            raise
        except Exception as error:  # noqa: BLE001 - the class may come from a third party
            _log.error("a connector of kind %s cannot be made: %s", row.kind, described_fault(error))
            raise BadRequestError(
                f"A connector of kind {row.kind} cannot be made: its class raised {type(error).__name__}"
            ) from None

    def check_root(self, call: Call, name: str) -> None:
        """Checks that a connector finds anything at its location; not every kind can without a scan.

        Raises:
            NotFoundError: there is no such connector.
            FloecatError: there is nothing, or it cannot be read.
        """
        opened = self.open(call, self.find(call, name, Privilege.MANAGE_CONNECTORS))
        if isinstance(opened, ChecksRoot):
            opened.check_root()

    def _row(self, call: Call, wanted: NewConnector) -> ConnectorRow:
        check_name(wanted.name, "connector name")
        kind = self._registry.get(wanted.kind)
        only_captures = getattr(kind, "only_captures", False)
        namespace = wanted.namespace or (() if only_captures else (wanted.name,))
        if namespace:
            check_namespace(namespace, reserved=self._reserved)
        _check_interval(wanted.interval_ms)
        _check_options(wanted.options)
        now_ms = self._clock.now_ms()
        is_storage = getattr(kind, "location_is_storage", True)
        default = {"mode": "capture-only"} if only_captures else {}
        id, policy = uuids.uuid7(), _policy({**default, **wanted.policy})
        row = ConnectorRow(
            id=id,
            catalog_id=call.catalog.id,
            name=wanted.name,
            kind=wanted.kind,
            location=str(call.catalog.allowed.check(wanted.location)) if is_storage else wanted.location,
            namespace=namespace,
            options=dict(wanted.options),
            enabled=wanted.enabled,
            interval_ms=wanted.interval_ms,
            next_scan_at_ms=max(now_ms, policy.not_before_ms or 0),
            created_at_ms=now_ms,
            updated_at_ms=now_ms,
            credentials=self._encrypted(id, wanted.credentials),
            policy=policy,
        )
        self.open(call, row)  # refuses an unknown kind or option now rather than with every scan
        return row

    def encrypt_anew(self) -> tuple[int, Sequence[str]]:
        """Encrypts the credentials of every catalog with the key that encrypts now.

        Returns:
            How many were not before, and a sentence for each that no key decrypts.
        """
        with self._store.read() as conn:
            rows = connectors.with_credentials(conn)
        count, lost = 0, []
        for row in rows:
            if row.credentials is None or self._encryption.is_current(row.credentials):
                continue
            try:
                fields = self._credentials(row)
            except SecretsError as error:
                lost.append(f"Connector {row.name}: {error.message}")
                continue
            new = self._encryption.encrypt_fields(fields, str(row.id))
            self._store.run(partial(connectors.replace_credentials, row=row, credentials=new))
            count += 1
        return count, lost

    def _encrypted(self, id: UUID, credentials: Mapping[str, str]) -> str | None:
        check_credentials(credentials, self._settings.token_commands)
        return self._encryption.encrypt_fields(credentials, str(id))

    def _credentials(self, row: ConnectorRow) -> Mapping[str, str]:
        return self._encryption.decrypt_fields(row.credentials, str(row.id))

    def _info(self, row: ConnectorRow) -> ConnectorInfo:
        try:
            credentials = masked(self._credentials(row))
        except SecretsError:
            credentials = {"scheme": MASK}
        return ConnectorInfo(
            name=row.name,
            kind=row.kind,
            location=row.location,
            namespace=row.namespace,
            options=row.options,
            enabled=row.enabled,
            interval_ms=row.interval_ms,
            next_scan_at_ms=row.next_scan_at_ms,
            last_scan_at_ms=row.last_scan_at_ms,
            last_error=row.last_error,
            created_at_ms=row.created_at_ms,
            credentials=credentials,
            policy=row.policy,
        )


def missing_connector(name: str) -> NotFoundError:
    """The error for a connector that does not exist."""
    return NotFoundError(f"Connector does not exist: {name}")


def _check_interval(interval_ms: int) -> None:
    if interval_ms < MIN_INTERVAL_MS:
        raise BadRequestError(f"Invalid interval: must be at least {MIN_INTERVAL_MS // 1000} seconds")


def _policy(values: Mapping[str, Any]) -> ConnectorPolicy:
    """The policy of values by name; none is the default of its name."""
    try:
        given = {name: value for name, value in values.items() if value is not None}
        policy = msgspec.convert(given, ConnectorPolicy)
    except msgspec.ValidationError as error:
        raise BadRequestError(f"Invalid policy: {error}") from None
    Selection(policy)  # refuses bad patterns now rather than with every scan
    return policy


def _check_options(options: Mapping[str, str]) -> None:
    if sum(len(key) + len(value) for key, value in options.items()) > _MAX_OPTIONS_CHARACTERS:
        raise BadRequestError(f"Invalid options: more than {_MAX_OPTIONS_CHARACTERS} characters")
    try:
        "".join([*options, *options.values()]).encode()
    except UnicodeEncodeError:
        raise BadRequestError("Invalid options: not valid Unicode text") from None


def described_fault(error: BaseException) -> str:
    """An unexpected exception for a log: its type and where it was raised, without its message.

    A third party wrote the message, and it may quote options of a connector, which may be secrets.
    """
    frames = traceback.extract_tb(error.__traceback__)
    places = [f"  {frame.filename}:{frame.lineno} in {frame.name}" for frame in frames]
    return "\n".join([type(error).__name__, *places])
