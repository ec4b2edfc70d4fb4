"""What a connector of kind `pyiceberg` may tell PyIceberg.

Only options that are listed are passed on: others of PyIceberg import code, read files of the service, or
connect to further hosts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple
from urllib.parse import quote, urlsplit

import sqlalchemy as sa

from floecat.connectors.spi import ConnectorSource
from floecat.connectors.upstream_http import AllowedHosts
from floecat.errors import BadRequestError, UnavailableError

__all__ = ["CatalogPlace"]

_TYPE: Final = "type"
_REGION: Final = re.compile("[a-z0-9-]{1,32}")
_SSL_MODES: Final = frozenset({"disable", "allow", "prefer", "require"})
_POSTGRES_PORT: Final = 5432
_READ_ONLY: Final = "-c default_transaction_read_only=on -c statement_timeout=60000"


class _Type(NamedTuple):
    class_name: str
    options: Sequence[str]
    libraries: Sequence[str] = ()


_TYPES: Final[Mapping[str, _Type]] = {
    "sql": _Type("pyiceberg.catalog.sql:SqlCatalog", ("uri",)),
    "glue": _Type(
        "pyiceberg.catalog.glue:GlueCatalog", ("glue.region", "glue.id", "glue.endpoint"), ("boto3",)
    ),
    "hive": _Type("pyiceberg.catalog.hive:HiveCatalog", ("uri", "ugi"), ("thrift",)),
}


class CatalogPlace:
    """Where a catalog is and how PyIceberg logs in.

    Options, by type:

    - `sql`: ``uri``, a SQLite file in an allowed location, or a PostgreSQL database, without a password.
    - `glue`: ``glue.region``, by default that of the credentials; ``glue.id``, an account of AWS;
      ``glue.endpoint``, in place of Amazon's.
    - `hive`: ``uri``, as `thrift://host:9083`, and ``ugi``.

    Attributes:
        class_name: of PyIceberg, as `module:Class`.
        libraries: that it needs beside PyIceberg.
        secrets: values that no message may hold.
    """

    def __init__(self, name: str, source: ConnectorSource) -> None:
        """Checks the options; connects to nothing.

        Raises:
            BadRequestError: an option is unknown, missing or malformed.
            LocationNotAllowedError: the place is not allowed.
        """
        type_name = source.options.get(_TYPE, name)
        found = _TYPES.get(type_name)
        if found is None:
            hint = "; kind iceberg-rest reads REST catalogs" if type_name == "rest" else ""
            raise BadRequestError(
                f"Unknown type of catalog: {type_name[:80]!r} (known: {', '.join(_TYPES)}){hint}"
            )
        unknown = sorted(source.options.keys() - {_TYPE, *found.options})
        if unknown:
            raise BadRequestError(
                f"Unknown option of a catalog of type {type_name}: {unknown[0][:80]!r}"
                f" (known: {', '.join((_TYPE, *found.options))})"
            )
        self.class_name = found.class_name
        self.libraries = found.libraries
        self._options = {key: value for key, value in source.options.items() if key != _TYPE}
        self._source = source
        self._hosts = AllowedHosts(source.allowed_hosts)
        credentials = source.credentials
        self.secrets = [value for key, value in credentials.items() if key not in ("scheme", "user")]
        make: Mapping[str, Callable[[], Mapping[str, str]]] = {
            "sql": self._sql,
            "glue": self._glue,
            "hive": self._hive,
        }
        self._places: list[tuple[str, int]] = []
        self._properties = make[type_name]()

    def properties(self) -> Mapping[str, str]:
        """Properties for PyIceberg, once the addresses of its hosts are checked.

        Raises:
            LocationNotAllowedError: an address may not be connected to.
            UnavailableError: a host is not found.
        """
        found = dict(self._properties)
        for host, port in self._places:
            try:
                (_, (address, *_)), *_ = self._hosts.addresses(host, port)
            except OSError:
                raise UnavailableError(f"The host {host} is not found") from None
            if found.get("uri", "").startswith("postgresql"):
                # the connection goes to the address that was checked
                found["uri"] = _written(
                    sa.make_url(found["uri"]).update_query_dict({"hostaddr": str(address)})
                )
        return found

    def _sql(self) -> Mapping[str, str]:
        try:
            url = sa.make_url(self._required("uri"))
        except (sa.exc.ArgumentError, ValueError):
            raise _invalid("uri", "must be a URL, as postgresql://user@host/database") from None
        if url.password is not None:
            raise _invalid("uri", "the password goes into the credentials, scheme password")
        made = self._sqlite(url) if url.drivername == "sqlite" else self._postgresql(url)
        # it is not ours to make tables in
        return {"uri": _written(made), "init_catalog_tables": "false"}

    def _sqlite(self, url: sa.URL) -> sa.URL:
        path = url.database or ""
        if not path.startswith("/") or url.query or url.host:
            raise _invalid("uri", "must be the path of a SQLite file, as sqlite:////lake/catalog.db")
        path = self._source.allowed.check(path).path
        return sa.URL.create("sqlite", database=f"file:{quote(path)}", query={"mode": "ro", "uri": "true"})

    def _postgresql(self, url: sa.URL) -> sa.URL:
        if url.drivername not in ("postgresql", "postgresql+psycopg"):
            raise _invalid("uri", "must be of sqlite or postgresql")
        if not url.host or not url.database:
            raise _invalid("uri", "must name a host and a database")
        ssl_mode = url.query.get("sslmode", "prefer")
        if url.query.keys() - {"sslmode"} or ssl_mode not in _SSL_MODES:
            raise _invalid("uri", f"of its query, only sslmode is known ({', '.join(sorted(_SSL_MODES))})")
        self._place(url.host, url.port or _POSTGRES_PORT)
        credentials = self._credentials("password")
        return url.set(
            drivername="postgresql+psycopg",
            username=credentials.get("user") or url.username,
            password=credentials.get("password"),
            query={"sslmode": ssl_mode, "connect_timeout": "10", "options": _READ_ONLY},
        )

    def _glue(self) -> Mapping[str, str]:
        credentials = self._credentials("aws")
        region = self._options.get("glue.region") or credentials.get("region", "")
        if not _REGION.fullmatch(region):
            raise _invalid("glue.region", "must be the name of a region, as eu-central-1")
        endpoint = self._options.get("glue.endpoint", f"https://glue.{region}.amazonaws.com")
        parts = self._hosts.check_url(endpoint)
        self._place(parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80))
        if "access-key-id" not in credentials or "secret-access-key" not in credentials:
            raise BadRequestError("A catalog of type glue needs credentials of the scheme aws")
        keys = {
            f"glue.{name}": credentials[name]
            for name in ("access-key-id", "secret-access-key", "session-token")
            if name in credentials
        }
        return {
            **self._options,
            "glue.region": region,
            "glue.endpoint": endpoint,
            **keys,
        }

    def _hive(self) -> Mapping[str, str]:
        self._credentials()
        for uri in self._required("uri").split(","):
            try:
                parts = urlsplit(uri)
                host, port = parts.hostname, parts.port
            except ValueError:
                host = port = None
            if not host or not port or parts.scheme != "thrift" or parts.username is not None:
                raise _invalid("uri", "must be as thrift://host:9083")
            self._place(host, port)
        return self._options

    def _required(self, option: str) -> str:
        found = self._options.get(option)
        if not found:
            raise BadRequestError(f"Missing option: {option}")
        return found

    def _place(self, host: str, port: int) -> None:
        self._hosts.check_host(host)
        self._places.append((host, port))

    def _credentials(self, scheme: str = "none") -> Mapping[str, str]:
        given = self._source.credentials.get("scheme", "none")
        if given not in ("none", scheme):
            raise BadRequestError(
                f"A catalog of this type takes no credentials of the scheme {given[:80]}"
                f" (known: {', '.join(dict.fromkeys(('none', scheme)))})"
            )
        return self._source.credentials


def _written(url: sa.URL) -> str:
    return url.render_as_string(hide_password=False)


def _invalid(option: str, reason: str) -> BadRequestError:
    return BadRequestError(f"Invalid option {option}: {reason}")
