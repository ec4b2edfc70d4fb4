"""Rows of Spark as Arrow tables: Spark 3.5 itself makes none on the Java of these tests."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql
from pyspark.sql import types as spark

__all__ = ["collected"]

_TYPES = {
    spark.ByteType(): pa.int8(),
    spark.ShortType(): pa.int16(),
    spark.IntegerType(): pa.int32(),
    spark.LongType(): pa.int64(),
    spark.FloatType(): pa.float32(),
    spark.DoubleType(): pa.float64(),
    spark.BooleanType(): pa.bool_(),
    spark.StringType(): pa.string(),
    spark.BinaryType(): pa.binary(),
    spark.DateType(): pa.date32(),
    spark.TimestampType(): pa.timestamp("us", "UTC"),
    spark.TimestampNTZType(): pa.timestamp("us"),
    spark.NullType(): pa.null(),
}


def collected(frame: DataFrame) -> pa.Table:
    """The rows of a frame."""
    schema = frame.schema
    if _has_maps(schema):
        # By number: a name may have dots, or occur twice.
        frame = frame.toDF(*(str(at) for at in range(len(schema))))
        frame = frame.select(
            [_without_maps(sql.col(str(at)), each.dataType) for at, each in enumerate(schema)]
        )
    rows = frame.collect()
    convert = _of_struct(schema)
    values = [convert(row) for row in rows]
    arrays = [pa.array([row[at] for row in values], _arrow(each.dataType)) for at, each in enumerate(schema)]
    return pa.Table.from_arrays(arrays, names=schema.names)


def _without_maps(column: Column, type_: spark.DataType) -> Column:
    """Maps as lists of their entries: Python has no maps with lists for keys."""
    if not _has_maps(type_):
        return column
    if isinstance(type_, spark.MapType):
        entry = spark.StructType().add("key", type_.keyType).add("value", type_.valueType)
        return sql.transform(sql.map_entries(column), lambda each: _without_maps(each, entry))
    if isinstance(type_, spark.ArrayType):
        return sql.transform(column, lambda each: _without_maps(each, type_.elementType))
    assert isinstance(type_, spark.StructType)
    fields = [_without_maps(column[each.name], each.dataType).alias(each.name) for each in type_]
    return sql.when(column.isNotNull(), sql.struct(*fields))


def _has_maps(type_: spark.DataType) -> bool:
    if isinstance(type_, spark.ArrayType):
        return _has_maps(type_.elementType)
    if isinstance(type_, spark.StructType):
        return any(_has_maps(each.dataType) for each in type_)
    return isinstance(type_, spark.MapType)


def _arrow(type_: spark.DataType) -> pa.DataType:
    if isinstance(type_, spark.ArrayType):
        return pa.list_(_arrow(type_.elementType))
    if isinstance(type_, spark.MapType):
        return pa.map_(_arrow(type_.keyType), _arrow(type_.valueType))
    if isinstance(type_, spark.StructType):
        return pa.struct([(each.name, _arrow(each.dataType)) for each in type_])
    if isinstance(type_, spark.DecimalType):
        return pa.decimal128(type_.precision, type_.scale)
    return _TYPES[type_]


def _of_struct(type_: spark.StructType) -> Callable[[Any], tuple[Any, ...]]:
    converters = [_converter(each.dataType) for each in type_]
    return lambda row: tuple(convert(value) for convert, value in zip(converters, row, strict=True))


def _converter(type_: spark.DataType) -> Callable[[Any], Any]:
    of_value = _of_value(type_)
    return lambda value: None if value is None else of_value(value)


def _of_value(type_: spark.DataType) -> Callable[[Any], Any]:
    if isinstance(type_, spark.TimestampType):
        # Without a zone, and in that of this process.
        return lambda value: value.astimezone(UTC)
    if isinstance(type_, spark.ArrayType):
        element = _converter(type_.elementType)
        return lambda value: [element(each) for each in value]
    if isinstance(type_, spark.MapType):
        key, item = _converter(type_.keyType), _converter(type_.valueType)
        return lambda value: [(key(each[0]), item(each[1])) for each in value]
    if isinstance(type_, spark.StructType):
        names, struct = type_.names, _of_struct(type_)
        return lambda value: dict(zip(names, struct(value), strict=True))
    return lambda value: bytes(value) if isinstance(value, bytearray) else value
