"""What each of the packed tables must do when it is read through the catalog.

A table that is not named here must give rows: those of `oracles.oracle_rows`, as many as the readers of the
index counted.
"""

from __future__ import annotations

import enum

import msgspec

from tests.delta_tables import TableFacts, all_tables

__all__ = [
    "EXPECTED",
    "MISREAD",
    "UNREADABLE",
    "Expectation",
    "Outcome",
    "expectation",
    "tables_that_give",
]


class Outcome(enum.Enum):
    """What becomes of a table."""

    ROWS = "rows"
    """It is read."""

    REFUSED = "refused"
    """It needs what Iceberg or this catalog cannot do: listed, answered 406 on load."""

    INVALID = "invalid"
    """Its log is broken: listed, answered 400 on load."""

    NO_DATA = "no data"
    """Its log names data files that do not exist: no reader may give rows."""

    VARIANT = "variant"
    """It has columns of the type variant: of format version 3, and its other columns are read."""


class Expectation(msgspec.Struct, frozen=True):
    """What must become of a table, and what a message must say about it (a regular expression)."""

    outcome: Outcome
    says: str = ""
    why: str = ""


_ROWS = Expectation(Outcome.ROWS)

EXPECTED: dict[str, Expectation] = {
    # Reader versions and features that nobody knows.
    "delta-rs/simple_table_features": Expectation(Outcome.REFUSED, r"blahabl|reader version 5"),
    "golden/deltalog-invalid-protocol-version/delta": Expectation(Outcome.REFUSED, r"99"),
    "delta/catalog-owned-preview": Expectation(Outcome.REFUSED, r"catalogManaged|catalogOwned"),
    # Widening that Iceberg does not have: integers to double or decimal, date to timestamp_ntz, scales.
    "delta/type-widening": Expectation(Outcome.REFUSED, r"byte_double|short_double|int_double"),
    "kernel-rs/type-widening": Expectation(Outcome.REFUSED, r"byte_double|short_double|int_double"),
    # Broken logs.
    "golden/deltalog-state-reconstruction-from-checkpoint-missing-metadata/delta": Expectation(
        Outcome.INVALID, r"metadata|metaData"
    ),
    "golden/deltalog-state-reconstruction-without-metadata/delta": Expectation(
        Outcome.INVALID, r"metadata|metaData"
    ),
    "golden/deltalog-state-reconstruction-without-protocol/delta": Expectation(Outcome.INVALID, r"protocol"),
    "golden/versions-not-contiguous/delta": Expectation(Outcome.INVALID, r"\b1\b"),
    "golden/deltalog-commit-info/delta": Expectation(
        Outcome.INVALID, r"schema", why="it has no schemaString"
    ),
    "golden/update-deleted-directory/delta": Expectation(
        Outcome.INVALID, r"schema", why="it has no schemaString"
    ),
    # Logs of tests that never had data.
    "golden/checkpoint/delta": Expectation(Outcome.NO_DATA),
    "golden/delete-re-add-same-file-different-transactions/delta": Expectation(Outcome.NO_DATA),
    "delta/spark-variant-stable-feature-checkpoint": Expectation(Outcome.NO_DATA),
    # Paths that differ in how the same absolute path is written: the file is removed, and nothing is left.
    "golden/canonicalized-paths-normal-a/delta": _ROWS,
    "golden/canonicalized-paths-normal-b/delta": _ROWS,
    "delta/spark-shredded-variant-preview-delta": Expectation(Outcome.REFUSED, r"variantShredding"),
    "delta/variant-stats-state-reconstruction": Expectation(Outcome.REFUSED, r"variantShredding"),
    "kernel-rs/unshredded-variant": Expectation(Outcome.VARIANT),
}

UNREADABLE: dict[tuple[str, str], str] = {
    ("duckdb", "golden/parquet-all-types-legacy-format/delta"): "Vector::Reference used on vector",
}
"""What an engine cannot read, with the text of its refusal: a failure means that it has learned it."""

# PyIceberg makes empty lists and maps of those that are NULL, where structs are in them.
_OF_STRUCTS = frozenset({"array_of_structs", "map_of_rows"})

MISREAD: dict[tuple[str, str], frozenset[str]] = {
    # It reads INT96 as nanoseconds, of which 64 bits end in 2262.
    ("pyiceberg", "delta-rs/table_with_edge_timestamps"): frozenset({"BIG_DATE"}),
    ("pyiceberg", "delta/table-with-icebegCompatV2Enabled"): _OF_STRUCTS,
    ("pyiceberg", "golden/parquet-all-types-legacy-format/delta"): _OF_STRUCTS,
    ("pyiceberg", "golden/parquet-all-types/delta"): _OF_STRUCTS,
    ("pyiceberg", "golden/table-with-columnmapping-mode-id/delta"): _OF_STRUCTS,
    ("pyiceberg", "golden/table-with-columnmapping-mode-name/delta"): _OF_STRUCTS,
}
"""Columns that an engine gets wrong by a fault of its own, in any Iceberg table."""


def expectation(name: str) -> Expectation:
    """What must become of a table."""
    return EXPECTED.get(name, _ROWS)


def tables_that_give(*outcomes: Outcome) -> list[TableFacts]:
    """The tables of some outcomes, by name."""
    return [facts for facts in all_tables() if expectation(facts.name).outcome in outcomes]
