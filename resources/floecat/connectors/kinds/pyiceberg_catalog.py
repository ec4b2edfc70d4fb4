"""The connector `pyiceberg`: tables of a catalog that PyIceberg opens.

PyIceberg runs in a process of its own, which is ended when the catalog does not answer. It asks the catalog
for names and locations of metadata files alone: the files are read by the storage of the catalog here, so
that nothing of a document is lost, and no location leads PyIceberg anywhere.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from threading import Lock
from typing import Any, ClassVar, Final, NamedTuple, TypeAlias
from urllib.parse import quote

from floecat.child_process import ChildPool, PoolSetup, Work
from floecat.connectors.kinds.pyiceberg_options import CatalogPlace
from floecat.connectors.patience import Patience
from floecat.connectors.selection import Selection
from floecat.connectors.spi import (
    ConnectorSource,
    DiscoveredTable,
    Discovery,
    UnreadablePlace,
    UpstreamDocument,
)
from floecat.errors import (
    BadRequestError,
    FloecatError,
    NoSuchTableError,
    UnavailableError,
    UnprocessableError,
)
from floecat.identifiers.namespace import Namespace

__all__ = ["LocationsOnly", "PyIcebergConnector"]

_LOCATION: Final = re.compile(r"pyiceberg:([A-Za-z0-9_.-]{1,255})")
_SILENT_S: Final = 120.0
"""The process is ended when it says nothing for so long; its start counts."""
_IDLE_S: Final = 5.0
_MEMORY_BYTES: Final = 1 << 30
_LONGEST_REASON: Final = 300
_FORGOTTEN: Final = ("AWS_", "PG", "PYICEBERG_")
"""Variables that would log in with what is the service's own."""
_INSTEAD: Final = {
    "AWS_CONFIG_FILE": os.devnull,
    "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
    "AWS_EC2_METADATA_DISABLED": "true",
    "PGPASSFILE": os.devnull,
    "PYICEBERG_HOME": os.devnull,
}


class _Namespace(NamedTuple):
    levels: Namespace


class _Table(NamedTuple):
    levels: Namespace
    name: str
    metadata_location: str | None
    """`None` if the catalog does not say it."""


class _Failure(NamedTuple):
    levels: Namespace
    error: FloecatError


_Found: TypeAlias = _Namespace | _Table | _Failure


class PyIcebergConnector:
    """Finds the tables of a catalog that PyIceberg opens, in namespaces of any depth.

    Its location is `pyiceberg:<name>`, the name that PyIceberg knows the catalog by. Options:

    - ``type``: `sql`, `glue` or `hive`. Default: the name.
    - those of PyIceberg that say where the catalog is; see `CatalogPlace`.

    Credentials: of the scheme `password` for `sql`, of `aws` for `glue`.
    """

    location_is_storage: ClassVar[bool] = False

    def __init__(self, source: ConnectorSource) -> None:
        """Reads the options.

        Raises:
            BadRequestError: an option is unknown or malformed, or PyIceberg is not installed.
            LocationNotAllowedError: the catalog lies on a host or in a folder that is not allowed.
        """
        match = _LOCATION.fullmatch(source.location)
        if match is None:
            raise BadRequestError(
                "Invalid location: must be pyiceberg: and the name of the catalog, as pyiceberg:glue"
            )
        self._source = source
        self._name = match[1]
        self._place = CatalogPlace(self._name, source)
        for library in ("pyiceberg", *self._place.libraries):
            if find_spec(library) is None:
                raise BadRequestError(
                    f"Connectors of kind pyiceberg need the library {library} for this type of catalog:"
                    " install floecat[pyiceberg], or for Hive pyiceberg[hive]"
                )
        self._pool = ChildPool("pyiceberg", self._setup, idle_s=_IDLE_S)
        self._loading = Lock()
        """Each process may have so much memory that there is one for loads."""

    def check_root(self) -> None:
        """See `ChecksRoot.check_root`."""
        for _ in self._run(_check):
            pass

    def discover(self) -> Iterator[Discovery]:
        """See `Connector.discover`."""
        for found in self._run(partial(_discover, self._source.selection)):
            if isinstance(found, _Namespace):
                self._source.looks_into(self._address(found.levels))
            elif isinstance(found, _Failure):
                yield UnreadablePlace(self._address(found.levels), found.error)
            else:
                yield DiscoveredTable(
                    found.name,
                    self._address((*found.levels, found.name)),
                    found.levels,
                    format="iceberg",
                    state=found.metadata_location,
                )

    def load(self, table: DiscoveredTable, known_state: str | None) -> UpstreamDocument | None:
        """See `LoadsTables.load`."""
        location = table.state
        if location is None:
            with self._loading:
                (location,) = self._run(partial(_load, (*table.namespace, table.name)))
        return None if location == known_state else UpstreamDocument(location, location)

    def _address(self, levels: Sequence[str]) -> str:
        return "/".join([self._source.location, *(quote(level, safe="") for level in levels)])

    def _setup(self) -> PoolSetup:
        properties = {"py-io-impl": f"{__name__}.{LocationsOnly.__name__}", **self._place.properties()}
        opened = partial(_Catalog, self._place.class_name, self._name, properties, self._place.secrets)
        return PoolSetup(opened, memory_bytes=_MEMORY_BYTES)

    def _run(self, work: Work) -> Iterator[Any]:
        last_s = time.monotonic()

        def check(_value: object) -> None:
            if time.monotonic() - last_s > _SILENT_S:
                raise UnavailableError(f"{self._source.location} did not answer within {_SILENT_S:g} s")

        for result in self._pool.run(work, check, every_s=1.0, stop_s=0.1):
            yield result
            last_s = time.monotonic()


class _FoundError(Exception):
    def __init__(self, location: str) -> None:
        super().__init__("found")
        self.location = location


class LocationsOnly:
    """Storage for PyIceberg that reads nothing: it ends a load with the location of the metadata file."""

    def __init__(self, _properties: Mapping[str, str]) -> None:
        pass

    def new_input(self, location: str) -> None:
        """Ends the load."""
        raise _FoundError(str(location))


class _Catalog:
    """A catalog of PyIceberg, in its process."""

    def __init__(
        self, class_name: str, name: str, properties: Mapping[str, str], secrets: Sequence[str]
    ) -> None:
        for variable in [each for each in os.environ if each.startswith(_FORGOTTEN)]:
            del os.environ[variable]
        os.environ.update(_INSTEAD)
        self._secrets = secrets
        module, _, class_ = class_name.partition(":")
        try:
            self._catalog = getattr(import_module(module), class_)(name, **properties)
        except Exception as error:  # noqa: BLE001 - of any of the libraries below PyIceberg
            raise self.told(error) from None

    def namespaces(self, parent: Namespace) -> list[Namespace]:
        """The namespaces directly below one, in order."""
        listed = {tuple(map(str, each)) for each in self._catalog.list_namespaces(parent)}
        return sorted(each for each in listed if each[:-1] == parent)

    def tables(self, namespace: Namespace) -> list[str]:
        """The names of the tables of a namespace, in order."""
        return sorted({str(each[-1]) for each in self._catalog.list_tables(namespace)})

    def metadata_location(self, identifier: Namespace) -> str:
        """The location of the metadata of a table."""
        try:
            return str(self._catalog.load_table(identifier).metadata_location)
        except _FoundError as found:
            return found.location

    def told(self, error: Exception) -> FloecatError:
        """An error in words. Texts of libraries are shown where they hold no more than a reason."""
        if isinstance(error, FloecatError):
            return error
        kind = type(error)
        name, module = kind.__name__, kind.__module__
        if name == "NoSuchTableError":
            return NoSuchTableError("The catalog does not have the table any more")
        if module.startswith("pyiceberg."):
            return UnprocessableError(f"PyIceberg cannot read it: {name}")
        reason = name
        if module.startswith("sqlalchemy.") and getattr(error, "orig", None) is not None:
            reason = f"{name}: {str(error.orig).strip()}"  # type: ignore[attr-defined]
        elif module.startswith("botocore.") and hasattr(error, "response"):
            reason = f"{error.response.get('Error', {}).get('Code', name)}"
        for secret in self._secrets:
            reason = reason.replace(secret, "***")
        line = " ".join(reason.split())[:_LONGEST_REASON]
        return UnavailableError(f"The catalog does not answer: {line}")


def _check(catalog: _Catalog, _step: object) -> Iterator[_Found]:
    try:
        catalog.namespaces(())
    except Exception as error:  # noqa: BLE001 - of any of the libraries below PyIceberg
        raise catalog.told(error) from None
    yield _Namespace(())


def _load(identifier: Namespace, catalog: _Catalog, _step: object) -> Iterator[str]:
    try:
        yield catalog.metadata_location(identifier)
    except Exception as error:  # noqa: BLE001 - of any of the libraries below PyIceberg
        raise catalog.told(error) from None


def _discover(selection: Selection, catalog: _Catalog, _step: object) -> Iterator[_Found]:
    waiting: list[Namespace] = [()]
    patience = Patience()
    while waiting:
        namespace = waiting.pop()
        yield _Namespace(namespace)
        try:
            below = catalog.namespaces(namespace)
            names = catalog.tables(namespace) if namespace and selection.takes_namespace(namespace) else []
        except Exception as error:  # noqa: BLE001 - of any of the libraries below PyIceberg
            told = catalog.told(error)
            if not namespace:
                raise told from None
            _count(patience, told)
            yield _Failure(namespace, told)
            continue
        patience.succeeded()
        waiting += reversed([each for each in below if selection.looks_into(each)])
        for name in names:
            if not selection.takes(namespace, name):
                continue
            try:
                location = catalog.metadata_location((*namespace, name))
                patience.succeeded()
            except Exception as error:  # noqa: BLE001 - of any of the libraries below PyIceberg
                _count(patience, catalog.told(error))
                location = None  # `load` says why
            yield _Table(namespace, name, location)


def _count(patience: Patience, error: FloecatError) -> None:
    # a table or namespace that PyIceberg cannot read says nothing about the catalog
    if isinstance(error, UnavailableError):
        patience.failed(error)
