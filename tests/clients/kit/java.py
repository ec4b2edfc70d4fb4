"""Iceberg's Java library from Python: its REST catalog, and what it throws."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from py4j.java_gateway import JavaGateway
from py4j.protocol import Py4JJavaError

from tests.clients.warehouses import Warehouse

__all__ = ["Iceberg", "Thrown", "raises"]


class Thrown:
    """A Java exception, filled when the block of `raises` ends."""

    message = ""


@contextmanager
def raises(exception: str, *, starts: str = "", contains: str = "") -> Iterator[Thrown]:
    """Expects a Java exception by its simple class name, and how its message starts or what it contains."""
    thrown = Thrown()
    try:
        yield thrown
    except Py4JJavaError as error:
        actual = error.java_exception
        thrown.message = str(actual.getMessage())
        name = actual.getClass().getSimpleName()
        assert name == exception, f"{name}: {thrown.message}"
        assert thrown.message.startswith(starts), thrown.message
        assert contains in thrown.message, thrown.message
    else:
        raise AssertionError(f"Nothing was thrown; expected {exception}")


class Iceberg:
    """Iceberg's library in a JVM. The objects that it hands out are Java's own."""

    def __init__(self, gateway: JavaGateway) -> None:
        self.jvm: Any = gateway.jvm
        self.api: Any = gateway.jvm.org.apache.iceberg
        self.types: Any = self.api.types.Types
        self._numbers = itertools.count(1)

    def catalog(self, warehouse: Warehouse, **properties: str) -> Any:
        """A new REST catalog; `_` in the names of properties is `-`, and `__` is `.`."""
        io = "hadoop.HadoopFileIO" if warehouse.s3 is None else "aws.s3.S3FileIO"
        settings = {
            "uri": warehouse.uri,
            "warehouse": warehouse.name,
            "io-impl": f"org.apache.iceberg.{io}",
            **warehouse.access_keys,
        }
        settings |= {name.replace("__", ".").replace("_", "-"): value for name, value in properties.items()}
        catalog = self.api.rest.RESTCatalog()
        catalog.setConf(self.jvm.org.apache.hadoop.conf.Configuration())
        catalog.initialize("kit", self.map(settings))
        return catalog

    def map(self, values: Mapping[str, str]) -> Any:
        """A Java map."""
        made = self.jvm.java.util.HashMap()
        for key, value in values.items():
            made.put(key, value)
        return made

    def set(self, values: Iterable[str]) -> Any:
        """A Java set."""
        made = self.jvm.java.util.HashSet()
        for value in values:
            made.add(value)
        return made

    def namespace(self, *levels: str) -> Any:
        """A namespace of these levels."""
        gateway_array = self.jvm.java.lang.reflect.Array.newInstance(
            self.jvm.java.lang.Class.forName("java.lang.String"), len(levels)
        )
        for index, level in enumerate(levels):
            gateway_array[index] = level
        return self.api.catalog.Namespace.of(gateway_array)

    def identifier(self, namespace: str, name: str) -> Any:
        """A table or view in a namespace of one level."""
        return self.api.catalog.TableIdentifier.of(self.namespace(namespace), name)

    def schema(self, *columns: Any) -> Any:
        """A schema; of a required long `id` and an optional string `data` unless columns are given."""
        if not columns:
            columns = (self.required(3, "id", "Long"), self.optional(4, "data", "String"))
        return self.api.Schema(self.jvm.java.util.ArrayList(list(columns)))

    def required(self, field_id: int, name: str, primitive: str) -> Any:
        """A required column."""
        return self.types.NestedField.required(field_id, name, self.primitive(primitive))

    def optional(self, field_id: int, name: str, primitive: str) -> Any:
        """An optional column."""
        return self.types.NestedField.optional(field_id, name, self.primitive(primitive))

    def primitive(self, name: str) -> Any:
        """A primitive type by the name of its class, as `Long`."""
        return getattr(self.types, f"{name}Type").get()

    def data_file(self, spec: Any, *, records: int = 2, partition: str = "") -> Any:
        """A data file that is nowhere, but which a commit can append."""
        builder = (
            self.api.DataFiles.builder(spec)
            .withPath(f"file:/tmp/kit/data-{next(self._numbers)}.parquet")
            .withFileSizeInBytes(10)
            .withRecordCount(records)
        )
        return (builder.withPartitionPath(partition) if partition else builder).build()

    def paths(self, table: Any) -> set[str]:
        """The data files of the current snapshot."""
        found = set()
        tasks = table.newScan().planFiles().iterator()
        while tasks.hasNext():
            found.add(str(tasks.next().file().path()))
        return found

    def text(self, value: Any) -> str:
        """What Java says of a schema, spec or sort order."""
        return str(value.toString())
