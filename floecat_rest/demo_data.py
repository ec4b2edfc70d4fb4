"""The demo data, written by PyIceberg through the REST service, as a user would.

A table that this module is still filling carries the property `demo.state=loading`; such a table is dropped
and made again by the next run. Any other table of the same name is left alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.exceptions import RESTError, UnauthorizedError
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import DayTransform
from pyiceberg.types import (
    DecimalType,
    DoubleType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    TimestamptzType,
)

from floecat.errors import UnavailableError
from floecat_rest.demo_delta import make_delta_table

if TYPE_CHECKING:
    from pyiceberg.table import Table

__all__ = ["is_wanted", "load", "steps"]

_STATE, _LOADING, _COMPLETE = "demo.state", "loading", "complete"
_NAMESPACE = ("demo",)
_ARCHIVE = ("demo", "archive")

_CITIES = [
    (1, "Amsterdam", "NL", 52.37, 4.90),
    (2, "Bergen", "NO", 60.39, 5.32),
    (3, "Kyoto", "JP", 35.01, 135.77),
    (4, "Lima", "PE", -12.05, -77.04),
    (5, "Nairobi", "KE", -1.29, 36.82),
    (6, "Zürich", "CH", 47.37, 8.54),
]
_FIRST_DAY = datetime(2026, 1, 5, 6, tzinfo=UTC)
_TRIPS_A_DAY = 200

# the sum of decimals has another precision in each engine
_TRIPS_BY_CITY = """\
SELECT c.name AS city, count(*) AS trips, CAST(sum(t.fare) AS decimal(18, 2)) AS fares
FROM demo.trips t JOIN demo.cities c ON c.city_id = t.city_id
GROUP BY c.name"""


class Step(NamedTuple):
    """A thing to make, safe to repeat."""

    name: str
    run: Callable[[RestCatalog], None]


def steps() -> list[Step]:
    """The steps of `load`, in order."""
    return [
        Step("namespaces", _make_namespaces),
        Step("demo.cities", lambda catalog: _make_table(catalog, "cities", _CITIES_SCHEMA, _fill_cities)),
        Step(
            "demo.trips",
            lambda catalog: _make_table(catalog, "trips", _TRIPS_SCHEMA, _fill_trips, spec=_BY_DAY),
        ),
        Step("demo.archive.months", _make_archive),
        Step("demo.stations (Delta)", lambda catalog: make_delta_table(catalog, _NAMESPACE, "cities")),
        Step("demo.trips_by_city", _make_view),
        Step("done", lambda catalog: _mark_namespace(catalog, _COMPLETE)),
    ]


def is_wanted(url: str, warehouse: str, properties: Mapping[str, str] | None = None) -> bool:
    """Whether the catalog holds nothing yet, or an interrupted load.

    Raises:
        UnavailableError: the service does not answer, or refuses; or PyIceberg lacks a package for the
            storage.
    """
    with _Connection(url, warehouse, properties or {}) as catalog:
        if not catalog.list_namespaces():
            return True
        return catalog.namespace_exists(_NAMESPACE) and _namespace_state(catalog) == _LOADING


def load(
    url: str, warehouse: str, on_step: Callable[[str], None], properties: Mapping[str, str] | None = None
) -> None:
    """Makes what is missing of the demo data.

    Args:
        url: the running service.
        warehouse: name of the catalog.
        on_step: called with the name of each step before it is done.
        properties: properties of PyIceberg's catalog, such as storage credentials.

    Raises:
        UnavailableError: the service does not answer, or refuses; or PyIceberg lacks a package for the
            storage.
    """
    with _Connection(url, warehouse, properties or {}) as catalog:
        for step in steps():
            on_step(step.name)
            step.run(catalog)


class _Connection:
    """A PyIceberg catalog whose failures become errors of ours."""

    def __init__(self, url: str, warehouse: str, properties: Mapping[str, str]) -> None:
        self._url = url
        self._properties = {"uri": url, "warehouse": warehouse, **properties}

    def __enter__(self) -> RestCatalog:
        try:
            return RestCatalog("floecat_demo", **self._properties)
        except (OSError, RESTError) as error:
            raise self._unavailable(error) from error

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if isinstance(error, OSError | RESTError):
            raise self._unavailable(error) from error
        if isinstance(error, ImportError):  # as adlfs for Azure
            raise UnavailableError(f"PyIceberg lacks a package for this storage: {error}") from error

    def _unavailable(self, error: Exception) -> UnavailableError:
        if isinstance(error, UnauthorizedError) and "token" not in self._properties:
            return UnavailableError(
                f"{self._url} requires a login: a bearer token is needed, by --token or FLOECAT_TOKEN"
            )
        return UnavailableError(f"demo data could not be written through {self._url}: {_reason(error)}")


def _reason(error: Exception) -> str:
    """The reason of the system, which several libraries wrap; otherwise the text of the error."""
    inner: object = error
    while isinstance(inner, BaseException):
        if isinstance(inner, OSError) and inner.strerror:
            return inner.strerror
        wrapped = [each for each in inner.args if isinstance(each, BaseException)]
        inner = getattr(inner, "reason", None) or inner.__cause__ or next(iter(wrapped), None)
    return str(error)


def _make_namespaces(catalog: RestCatalog) -> None:
    if not catalog.namespace_exists(_NAMESPACE):
        comment = "Demo data. Drop it whenever you like."
        catalog.create_namespace(_NAMESPACE, {"comment": comment, _STATE: _LOADING})
    catalog.create_namespace_if_not_exists(_ARCHIVE, {"comment": "A namespace inside a namespace"})


def _namespace_state(catalog: RestCatalog) -> str | None:
    properties: Mapping[str, str] = catalog.load_namespace_properties(_NAMESPACE)
    return properties.get(_STATE)


def _mark_namespace(catalog: RestCatalog, state: str) -> None:
    if _namespace_state(catalog) == _LOADING:
        catalog.update_namespace_properties(_NAMESPACE, updates={_STATE: state})


def _make_table(
    catalog: RestCatalog,
    name: str,
    schema: Schema,
    fill: Callable[[Table], None],
    *,
    spec: PartitionSpec | None = None,
    namespace: tuple[str, ...] = _NAMESPACE,
) -> None:
    identifier = (*namespace, name)
    if catalog.table_exists(identifier):
        if catalog.load_table(identifier).properties.get(_STATE) != _LOADING:
            return
        catalog.drop_table(identifier)
    table = catalog.create_table(
        identifier, schema, partition_spec=spec or PartitionSpec(), properties={_STATE: _LOADING}
    )
    fill(table)
    with table.transaction() as transaction:
        transaction.set_properties({_STATE: _COMPLETE})


def _rows(table: Table, rows: list[tuple[object, ...]]) -> pa.Table:
    schema = table.schema().as_arrow()
    columns = [
        pa.array(values, field.type) for values, field in zip(zip(*rows, strict=True), schema, strict=True)
    ]
    return pa.Table.from_arrays(columns, schema=schema)


def _fill_cities(table: Table) -> None:
    table.append(_rows(table, list(_CITIES)))


def _fill_trips(table: Table) -> None:
    for day in range(3):
        table.append(_rows(table, [_trip(day, number) for number in range(_TRIPS_A_DAY)]))
    first = table.history()[0].snapshot_id
    table.manage_snapshots().create_tag(first, "first-day").commit()
    table.delete("distance_km < 1.0")


def _trip(day: int, number: int) -> tuple[object, ...]:
    # A little modular arithmetic spreads the values and makes every load the same.
    distance_km = (number * 37 % 250) / 10 + 0.5
    started_at = _FIRST_DAY + timedelta(days=day, minutes=number * 4)
    fare = (Decimal(number * 37 % 250) * Decimal("0.18") + Decimal("3.20")).quantize(Decimal("0.01"))
    return (day * _TRIPS_A_DAY + number + 1, number * 7 % len(_CITIES) + 1, started_at, distance_km, fare)


def _make_archive(catalog: RestCatalog) -> None:
    def fill(table: Table) -> None:
        table.append(_rows(table, [(f"2025-{month:02}", 4000 + month * 211 % 900) for month in range(1, 13)]))

    _make_table(catalog, "months", _MONTHS_SCHEMA, fill, namespace=_ARCHIVE)


def _make_view(catalog: RestCatalog) -> None:
    from pyiceberg.view.metadata import ViewVersion

    identifier = (*_NAMESPACE, "trips_by_city")
    if catalog.view_exists(identifier):
        return
    dialects = ("spark", "trino", "duckdb")
    representations = [{"type": "sql", "sql": _TRIPS_BY_CITY, "dialect": dialect} for dialect in dialects]
    version = ViewVersion.model_validate(
        {
            "version-id": 1,
            "schema-id": 0,
            "summary": {"engine-name": "floecat"},
            "representations": representations,
            "default-namespace": list(_NAMESPACE),
            # Trino reads no view without it
            "default-catalog": catalog.properties["warehouse"],
        }
    )
    catalog.create_view(identifier, _TRIPS_BY_CITY_SCHEMA, version)


_CITIES_SCHEMA = Schema(
    NestedField(1, "city_id", IntegerType(), required=True),
    NestedField(2, "name", StringType()),
    NestedField(3, "country", StringType(), doc="ISO 3166 code"),
    NestedField(4, "latitude", DoubleType()),
    NestedField(5, "longitude", DoubleType()),
    identifier_field_ids=[1],
)
_TRIPS_SCHEMA = Schema(
    NestedField(1, "trip_id", LongType(), required=True),
    NestedField(2, "city_id", IntegerType(), required=True),
    NestedField(3, "started_at", TimestamptzType()),
    NestedField(4, "distance_km", DoubleType()),
    NestedField(5, "fare", DecimalType(8, 2)),
    identifier_field_ids=[1],
)
_BY_DAY = PartitionSpec(PartitionField(source_id=3, field_id=1000, transform=DayTransform(), name="day"))
_MONTHS_SCHEMA = Schema(NestedField(1, "month", StringType()), NestedField(2, "trips", LongType()))
_TRIPS_BY_CITY_SCHEMA = Schema(
    NestedField(1, "city", StringType()),
    NestedField(2, "trips", LongType()),
    NestedField(3, "fares", DecimalType(18, 2)),
)
