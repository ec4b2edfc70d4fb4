"""The connector `pyiceberg`: SQL catalogs on SQLite and PostgreSQL, Glue, and what PyIceberg is not told."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import sqlalchemy as sa
from moto.server import ThreadedMotoServer
from pyiceberg.catalog import Catalog
from pyiceberg.catalog.glue import GlueCatalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField

from floecat.connectors.kinds import pyiceberg_catalog
from floecat.connectors.kinds.pyiceberg_catalog import PyIcebergConnector
from floecat.connectors.selection import Selection
from floecat.connectors.spi import ConnectorSource, DiscoveredTable, LoadsTables
from floecat.errors import BadRequestError, LocationNotAllowedError, NoSuchTableError, UnavailableError
from floecat.store.catalogs.connector_policies import ConnectorPolicy
from tests.storages import storage_at

SCHEMA = Schema(NestedField(1, "id", LongType(), required=True))
EVERYTHING = ConnectorPolicy()
KEYS = {"access-key-id": "AKIAUPSTREAM", "secret-access-key": "not-to-be-shown", "region": "eu-west-1"}


def connector(
    folder: Path,
    location: str = "pyiceberg:lake",
    *,
    hosts: tuple[str, ...] = (),
    credentials: dict[str, str] | None = None,
    looks_into: Any = lambda _location: None,
    policy: ConnectorPolicy = EVERYTHING,
    **options: str,
) -> PyIcebergConnector:
    named = {key.replace("_", "."): value for key, value in options.items()}
    return PyIcebergConnector(
        ConnectorSource(
            location,
            named,
            storage_at([folder.as_uri()]),
            credentials=credentials or {},
            allowed_hosts=hosts,
            selection=Selection(policy),
            looks_into=looks_into,
        )
    )


class Upstream(SimpleNamespace):
    """A catalog of PyIceberg, and how a connector reaches it."""

    catalog: Catalog
    how: dict[str, Any]

    def make(self, *identifiers: tuple[str, ...]) -> None:
        for identifier in identifiers:
            self.catalog.create_namespace_if_not_exists(identifier[:-1])
            self.catalog.create_table(identifier, SCHEMA)

    def location(self, *identifier: str) -> str:
        return self.catalog.load_table(identifier).metadata_location


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)])
def sql(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Upstream]:
    if request.param == "sqlite":
        uri = f"sqlite:///{tmp_path}/catalog.db"
        how: dict[str, Any] = {"type": "sql", "uri": uri}
    else:
        uri = request.getfixturevalue("postgres_url")
        how = {
            "type": "sql",
            "uri": sa.make_url(uri).set(password=None).render_as_string(),
            "hosts": ("127.0.0.1",),
            "credentials": {"scheme": "password", "user": "floecat", "password": "not-to-be-shown"},
        }
    catalog = SqlCatalog("lake", uri=uri, warehouse=tmp_path.as_uri())
    yield Upstream(catalog=catalog, how=how)
    catalog.engine.dispose()


def test_tables_of_nested_namespaces_by_their_metadata_files(sql: Upstream, tmp_path: Path) -> None:
    sql.make(("sales", "orders"), ("sales", "eu", "orders"), ("a", "t"))
    sql.catalog.create_namespace(("empty",))
    looked: list[str] = []
    opened = connector(tmp_path, **sql.how, looks_into=looked.append)
    opened.check_root()
    found = list(opened.discover())
    assert [(table.namespace, table.name) for table in found if isinstance(table, DiscoveredTable)] == [
        (("a",), "t"),
        (("sales",), "orders"),
        (("sales", "eu"), "orders"),
    ]
    first = found[0]
    assert first == DiscoveredTable(
        "t", "pyiceberg:lake/a/t", ("a",), format="iceberg", state=sql.location("a", "t")
    )
    assert looked == [
        "pyiceberg:lake",
        *(f"pyiceberg:lake/{ns}" for ns in ("a", "empty", "sales", "sales/eu")),
    ]


def test_what_is_not_taken_is_not_asked_for(sql: Upstream, tmp_path: Path) -> None:
    sql.make(("sales", "orders"), ("sales", "tmp"), ("sales", "eu", "orders"), ("a", "t"))
    looked: list[str] = []
    policy = ConnectorPolicy(namespaces=("sales", "!sales.eu"), tables=("!tmp",))
    opened = connector(tmp_path, **sql.how, looks_into=looked.append, policy=policy)
    assert [each.location for each in opened.discover()] == ["pyiceberg:lake/sales/orders"]
    assert looked == ["pyiceberg:lake", "pyiceberg:lake/sales"]


def test_a_commit_upstream_is_another_state(sql: Upstream, tmp_path: Path) -> None:
    sql.make(("a", "t"))
    opened = connector(tmp_path, **sql.how)
    assert isinstance(opened, LoadsTables)
    (before,) = opened.discover()
    with sql.catalog.load_table(("a", "t")).transaction() as transaction:
        transaction.set_properties(changed="yes")
    (after,) = opened.discover()
    assert isinstance(before, DiscoveredTable)
    assert isinstance(after, DiscoveredTable)
    assert opened.load(before, before.state) is None
    document = opened.load(after, before.state)
    assert document is not None
    assert document.document is None
    assert document.metadata_location == document.state == sql.location("a", "t")


def test_a_table_that_is_dropped_in_between(sql: Upstream, tmp_path: Path) -> None:
    sql.make(("a", "t"))
    opened = connector(tmp_path, **sql.how)
    with pytest.raises(NoSuchTableError):
        list(opened._run(pyiceberg_catalog.partial(pyiceberg_catalog._load, ("a", "gone"))))
    unknown = DiscoveredTable("t", "pyiceberg:lake/a/t", ("a",), format="iceberg")
    document = opened.load(unknown, None)
    assert document is not None
    assert document.state == sql.location("a", "t")


def test_nothing_is_made_upstream(sql: Upstream, tmp_path: Path) -> None:
    sql.catalog.destroy_tables()
    with pytest.raises(UnavailableError, match=r"iceberg_tables|iceberg_namespace_properties") as refused:
        list(connector(tmp_path, **sql.how).discover())
    assert "not-to-be-shown" not in refused.value.message
    assert sa.inspect(sql.catalog.engine).get_table_names() == []


def test_a_missing_file_is_told_and_not_made(tmp_path: Path) -> None:
    opened = connector(tmp_path, type="sql", uri=f"sqlite:///{tmp_path}/none.db")
    with pytest.raises(UnavailableError, match="unable to open database file"):
        list(opened.discover())
    assert not (tmp_path / "none.db").exists()


def test_a_database_that_never_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pyiceberg_catalog, "_SILENT_S", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        uri = f"postgresql://u@127.0.0.1:{silent.getsockname()[1]}/db"
        opened = connector(tmp_path, type="sql", uri=uri, hosts=("127.0.0.1",))
        with pytest.raises(UnavailableError, match="did not answer within"):
            list(opened.discover())


@pytest.fixture
def glue(tmp_path: Path) -> Iterator[Upstream]:
    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    endpoint = f"http://{host}:{port}"
    keys = {f"glue.{name}": KEYS[name] for name in ("access-key-id", "secret-access-key", "region")}
    properties = {"glue.endpoint": endpoint, "warehouse": tmp_path.as_uri(), **keys}
    how = {"glue_endpoint": endpoint, "hosts": ("127.0.0.1",), "credentials": {"scheme": "aws", **KEYS}}
    yield Upstream(catalog=GlueCatalog("glue", **properties), how=how)
    server.stop()


def test_glue(glue: Upstream, tmp_path: Path) -> None:
    glue.make(("sales", "orders"), ("sales", "returns"))
    glue.catalog.glue.create_table(  # type: ignore[attr-defined]
        DatabaseName="sales", TableInput={"Name": "hive", "Parameters": {}, "StorageDescriptor": {}}
    )
    found = list(connector(tmp_path, "pyiceberg:glue", **glue.how).discover())
    assert found == [
        DiscoveredTable(
            name,
            f"pyiceberg:glue/sales/{name}",
            ("sales",),
            format="iceberg",
            state=glue.location("sales", name),
        )
        for name in ("orders", "returns")
    ]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"type": "rest", "uri": "http://allowed/"}, "Unknown type of catalog: 'rest' .* iceberg-rest"),
        ({"type": "bigquery"}, "Unknown type of catalog"),
        ({"type": "sql"}, "Missing option: uri"),
        ({"type": "sql", "uri": "sqlite:////x", "py-io-impl": "os.system"}, "Unknown option .*'py-io-impl'"),
        ({"type": "sql", "uri": "sqlite:////x", "init_catalog_tables": "true"}, "Unknown option"),
        ({"type": "glue", "py-catalog-impl": "os.system"}, "Unknown option .*'py-catalog-impl'"),
        ({"type": "glue", "glue.profile-name": "admin"}, "Unknown option"),
        ({"type": "sql", "uri": "no url"}, "must be a URL"),
        ({"type": "sql", "uri": "mysql://u@allowed/db"}, "must be of sqlite or postgresql"),
        ({"type": "sql", "uri": "sqlite+pysqlite:////x"}, "must be of sqlite or postgresql"),
        ({"type": "sql", "uri": "sqlite://"}, "must be the path of a SQLite file"),
        ({"type": "sql", "uri": "sqlite:///relative.db"}, "must be the path of a SQLite file"),
        ({"type": "sql", "uri": "sqlite:////x?vfs=y"}, "must be the path of a SQLite file"),
        ({"type": "sql", "uri": "postgresql://u:secret@allowed/db"}, "the password goes into"),
        ({"type": "sql", "uri": "postgresql://u@allowed/"}, "must name a host and a database"),
        ({"type": "sql", "uri": "postgresql://u@/db?host=elsewhere"}, "must name a host"),
        ({"type": "sql", "uri": "postgresql://u@allowed/db?host=elsewhere"}, "only sslmode is known"),
        ({"type": "sql", "uri": "postgresql://u@allowed/db?plugin=x"}, "only sslmode is known"),
        ({"type": "glue", "glue.region": "eu-west-1/../x"}, "must be the name of a region"),
        ({"type": "glue", "glue.region": "eu-west-1", "glue.endpoint": "ftp://allowed"}, "http or https"),
        ({"type": "glue", "glue.region": "eu-west-1", "glue.endpoint": "http://allowed"}, "scheme aws"),
    ],
)
def test_options_are_checked(tmp_path: Path, options: dict[str, str], message: str) -> None:
    source = ConnectorSource(
        "pyiceberg:x", options, storage_at([tmp_path.as_uri()]), allowed_hosts=("allowed",)
    )
    with pytest.raises(BadRequestError, match=message):
        PyIcebergConnector(source)


@pytest.mark.parametrize(
    "options",
    [
        {"type": "sql", "uri": "sqlite:////etc/secret.db"},
        {"type": "sql", "uri": "postgresql://u@elsewhere/db"},
        {"type": "sql", "uri": "postgresql://u@allowed,elsewhere/db"},
        {"type": "glue", "glue.region": "eu-west-1"},
        {"type": "glue", "glue.region": "eu-west-1", "glue.endpoint": "https://elsewhere"},
    ],
)
def test_places_are_checked(tmp_path: Path, options: dict[str, str]) -> None:
    source = ConnectorSource(
        "pyiceberg:x",
        options,
        storage_at([tmp_path.as_uri()]),
        credentials={"scheme": "aws", **KEYS} if options["type"] == "glue" else {},
        allowed_hosts=("allowed",),
    )
    with pytest.raises(LocationNotAllowedError):
        PyIcebergConnector(source)


@pytest.mark.parametrize("location", ["pyiceberg:", "glue", "pyiceberg:a/b", "s3://bucket", "pyiceberg:a b"])
def test_the_location_names_the_catalog(tmp_path: Path, location: str) -> None:
    with pytest.raises(BadRequestError, match="Invalid location"):
        connector(tmp_path, location, type="sql", uri=f"sqlite:///{tmp_path}/x.db")


def test_credentials_of_another_scheme_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BadRequestError, match="takes no credentials of the scheme bearer"):
        connector(
            tmp_path,
            type="sql",
            uri="postgresql://u@allowed/db",
            hosts=("allowed",),
            credentials={"scheme": "bearer", "token": "t"},
        )
