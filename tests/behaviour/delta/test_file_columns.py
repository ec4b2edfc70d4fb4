"""Ids of partition columns and of what data files hold beside columns, over the life of a table."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pyarrow as pa
import pytest

from floecat.delta import delta_rows as delta_tables
from floecat.delta.refresh.delta_table import DeltaState
from tests.clients.delta.raw_table import RawTable, column, mapped, with_ids

_P = (column("id", "long"), column("p", "string"))
_MAPPED = (mapped("id", 1, "long", "col-i"), mapped("p", 2, "string", "col-p"))


def _add(made: RawTable, id_: int, partition: dict[str, str], **more: Any) -> dict[str, Any]:
    return made.add(f"{id_}.parquet", pa.table({"id": [id_], "p": ["file"]} | more), partition)


def _document(lake, table) -> dict[str, Any]:
    return msgspec.json.decode(lake.load(table).metadata)


def _ids(lake, table) -> dict[str, int]:
    document = _document(lake, table)
    [schema] = [each for each in document["schemas"] if each["schema-id"] == document["current-schema-id"]]
    return {field["name"]: field["id"] for field in schema["fields"]}


def _listed(lake, table) -> dict[str, int]:
    mapping = json.loads(_document(lake, table)["properties"]["schema.name-mapping.default"])
    return {name: field["field-id"] for field in mapping for name in field["names"]}


def _make_older(lake, table, own: dict[str, int]) -> None:
    """What an earlier release kept: one id for a path, and no count of what is published."""
    row = lake.state(table)
    state = {key: value for key, value in json.loads(row.state).items() if key != "translation"}
    ids = {"own": own, "last_id": max(own.values())}
    lake.kernel.store.run(
        lambda conn: delta_tables.publish(
            conn,
            row.entry_id,
            version=row.version,
            log_fingerprint=row.log_fingerprint,
            field_ids=json.dumps(ids).encode(),
            state=json.dumps(state).encode(),
            generation=row.generation,
            now_ms=row.refreshed_at_ms,
        )
    )


def test_partition_columns_of_files_are_listed_under_no_column(lake, tmp_path):
    made = RawTable(tmp_path / "t")
    made.commit(*made.define(*_P, partitions=["p"]), _add(made, 1, {"p": "a"}))
    table = lake.register(made.folder)
    assert _ids(lake, table) == {"id": 1, "p": 2}
    listed = _listed(lake, table)
    assert listed["id"] == 1
    assert listed["p"] > 1_000_000_000
    # the same name as a column of files
    made.commit(*made.define(*_P))
    assert _ids(lake, table) == {"id": 1, "p": 3}
    assert _listed(lake, table)["p"] == 3
    made.commit(*made.define(*_P, partitions=["p"]))
    assert _ids(lake, table) == {"id": 1, "p": 2}
    assert _listed(lake, table)["p"] == 3


def test_mapped_partition_columns_keep_their_ids_unless_files_hold_them(lake, tmp_path):
    made = RawTable(tmp_path / "t")
    plain = with_ids(pa.table({"col-i": [1]}), {"col-i": 1})
    made.commit(
        *made.define(*_MAPPED, partitions=["p"], mode="name"), made.add("1.parquet", plain, {"col-p": "a"})
    )
    table = lake.register(made.folder)
    assert _ids(lake, table) == {"id": 1, "p": 2}
    assert lake.state(table).generation == 0
    held = with_ids(pa.table({"col-i": [2], "col-p": ["x"]}), {"col-i": 1, "col-p": 2})
    made.commit(made.add("2.parquet", held, {"col-p": "b"}))
    assert lake.rows(table) == [(1, "a"), (2, "b")]
    assert _ids(lake, table)["p"] not in (1, 2)
    ids, generation = _ids(lake, table), lake.state(table).generation
    assert generation == 1
    made.commit(made.add("3.parquet", plain, {"col-p": "c"}))
    assert lake.rows(table)[-1] == (2, "b")
    assert (_ids(lake, table), lake.state(table).generation) == (ids, generation)
    assert not list(made.folder.glob("metadata/compat-df-*"))


def test_older_versions_show_columns_too(open_lake, tmp_path):
    lake = open_lake(max_versions_in_request=1)
    made = RawTable(tmp_path / "t")
    held = with_ids(pa.table({"col-i": [1], "col-p": ["x"]}), {"col-i": 1, "col-p": 2})
    old = made.add("1.parquet", held, {"col-p": "a"})
    made.commit(*made.define(*_MAPPED, partitions=["p"], mode="name"), old)
    other = with_ids(pa.table({"extra": [0], "col-i": [1]}), {"col-i": 1})
    more = made.add("2.parquet", other, {"col-p": "a"})
    made.commit(made.remove(old), more)
    plain = with_ids(pa.table({"col-i": [3]}), {"col-i": 1})
    made.commit(made.remove(more), made.add("3.parquet", plain, {"col-p": "c"}))
    table = lake.register(made.folder)
    assert lake.versions(table) == [2]
    lake.materialise(table)
    assert lake.versions(table) == [0, 1, 2]
    assert lake.rows(table, 1) == [(1, "a")]
    assert lake.rows(table, 2) == [(3, "c")]
    assert _ids(lake, table)["p"] != 2
    assert _listed(lake, table)["extra"] > 1_000_000_000


@pytest.mark.parametrize("was_a_column", [False, True])
def test_tables_of_earlier_releases_are_made_again_once(lake, tmp_path, was_a_column):
    made = RawTable(tmp_path / "t")
    if was_a_column:
        made.commit(*made.define(*_P))
    made.commit(*made.define(*_P, partitions=["p"]), _add(made, 1, {"p": "a"}, extra=["x"]))
    table = lake.register(made.folder)
    lake.materialise(table)
    location = lake.load(table).metadata_location
    _make_older(lake, table, {'["id"]': 1, '["p"]': 2})
    assert not DeltaState.is_complete(lake.state(table).state)
    assert lake.rows(table) == [(1, "a")]
    again = lake.load(table).metadata_location
    assert again != location
    # what was published may be an id of files
    assert _ids(lake, table) == {"id": 1, "p": 1_000_000}
    assert _listed(lake, table)["p"] == (2 if was_a_column else 2_000_000_000)
    assert lake.load(table).metadata_location == again


def test_a_file_may_hold_too_many_columns(lake, tmp_path):
    from floecat.delta.translation.column_ids import MOST_HIDDEN

    made = RawTable(tmp_path / "t")
    extra = {f"x{at}": [at] for at in range(MOST_HIDDEN + 10)}
    made.commit(*made.define(column("id", "long")), made.add("a.parquet", pa.table(extra | {"id": [1]})))
    table = lake.register(made.folder)
    assert MOST_HIDDEN <= len(_listed(lake, table)) <= MOST_HIDDEN + 5
