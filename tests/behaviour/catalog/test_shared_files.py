"""Files that more than one entry knows of: nothing that a table needs goes with another one."""

from __future__ import annotations

import json
from pathlib import Path
from urllib.parse import urlparse

import pytest
from msgspec import Raw

from floecat.auth.authorizer import Privilege
from floecat.commits.view_commits import CreateView
from floecat.entries.calls import Call, LoadedTable
from floecat.errors import ConflictError, NoSuchTableError
from floecat.runtime import Kernel
from tests.behaviour.catalog.changes import SCHEMA, change, create, set_property, table
from tests.view_documents import view_version

DELETING = {
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "1",
}


def path_of(location: str | None) -> Path:
    return Path(urlparse(location or "").path)


def document(loaded: LoadedTable) -> dict[str, object]:
    read: dict[str, object] = json.loads(loaded.metadata)
    return read


def test_old_metadata_files_go_when_the_table_says_so(kernel: Kernel, call: Call) -> None:
    first = create(kernel, call, "t", properties=DELETING)
    second = kernel.commits.tables.commit(call, set_property("t", "a", "1"))
    third = kernel.commits.tables.commit(call, set_property("t", "a", "2"))
    assert [path_of(loaded.metadata_location).exists() for loaded in (first, second, third)] == [
        False,
        True,
        True,
    ]


def test_a_log_that_names_foreign_files_deletes_none(kernel: Kernel, call: Call) -> None:
    victim = create(kernel, call, "victim")
    data = path_of(str(document(victim)["location"])) / "data" / "00000-x.parquet"
    data.write_bytes(b"rows")
    forged = document(create(kernel, call, "source", properties=DELETING))
    kernel.purge.drops.drop(call, table("source"), purge=False)
    forged["metadata-log"] = [
        {"timestamp-ms": 1, "metadata-file": str(data.as_uri())},
        {"timestamp-ms": 2, "metadata-file": victim.metadata_location},
    ]
    file = path_of(str(forged["location"])) / "metadata" / "forged.metadata.json"
    file.write_text(json.dumps(forged))
    kernel.commits.registration.register_table(call, ("ns",), "forged", file.as_uri())
    for value in "123":
        kernel.commits.tables.commit(call, set_property("forged", "a", value))
    assert data.exists()
    assert path_of(victim.metadata_location).exists()


def forged_over(
    kernel: Kernel, call: Call, location: str, log: list[str | None], **properties: str
) -> LoadedTable:
    """A table of its own UUID that lives where another entry does, and whose log names the other's files."""
    forged = document(create(kernel, call, "source", properties=DELETING | properties))
    kernel.purge.drops.drop(call, table("source"), purge=False)
    forged["location"] = location
    forged["metadata-log"] = [
        {"timestamp-ms": number, "metadata-file": file} for number, file in enumerate(log, 1)
    ]
    file = path_of(location) / "metadata" / "00000-0190a1b2-0000-7000-8000-000000000001.metadata.json"
    file.write_text(json.dumps(forged))
    return kernel.commits.registration.register_table(call, ("ns",), "forged", file.as_uri())


def test_a_clone_over_a_table_deletes_none_of_its_files(kernel: Kernel, call: Call) -> None:
    first = create(kernel, call, "victim")
    current = kernel.commits.tables.commit(call, set_property("victim", "a", "1"))
    location = str(document(current)["location"])
    registered = forged_over(kernel, call, location, [first.metadata_location, current.metadata_location])
    commits = [kernel.commits.tables.commit(call, set_property("forged", "a", value)) for value in "123"]
    assert path_of(first.metadata_location).exists()
    assert path_of(current.metadata_location).exists()
    assert kernel.commits.registration.register_table(
        call, ("ns",), "victim", current.metadata_location or "", overwrite=True
    )
    # the file that was registered was not written by the clone either; those of its commits were
    assert path_of(registered.metadata_location).exists()
    assert [path_of(loaded.metadata_location).exists() for loaded in commits] == [False, True, True]


def test_a_clone_over_a_view_leaves_its_file(kernel: Kernel, call: Call) -> None:
    request = CreateView("v", SCHEMA, Raw(json.dumps(view_version()).encode()))
    view = kernel.commits.views.create(call, ("ns",), request)
    forged_over(kernel, call, json.loads(view.metadata)["location"], [view.metadata_location])
    for value in "123":
        kernel.commits.tables.commit(call, set_property("forged", "a", value))
    assert path_of(view.metadata_location).exists()


def test_a_file_that_became_current_elsewhere_stays(kernel: Kernel, call: Call) -> None:
    """The table wrote it, and an entry with another UUID was made of it."""
    created = create(kernel, call, "t", properties=DELETING)
    file = path_of(created.metadata_location)
    file.write_text(json.dumps(document(created) | {"table-uuid": "0190a1b2-0000-7000-8000-000000000009"}))
    kernel.commits.registration.register_table(call, ("ns",), "other", created.metadata_location or "")
    for value in "123":
        kernel.commits.tables.commit(call, set_property("t", "a", value))
    assert file.exists()
    assert kernel.catalog.tables.load(call, table("other")).metadata_location == created.metadata_location


def test_the_files_of_another_entry_of_the_same_name_stay(kernel: Kernel, call: Call) -> None:
    """A table that was dropped and registered again: what the old entry wrote is not looked up."""
    created = create(kernel, call, "t", properties=DELETING)
    kernel.purge.drops.drop(call, table("t"), purge=False)
    kernel.commits.registration.register_table(call, ("ns",), "t", created.metadata_location or "")
    commits = [kernel.commits.tables.commit(call, set_property("t", "a", value)) for value in "12"]
    assert path_of(created.metadata_location).exists()
    assert [path_of(loaded.metadata_location).exists() for loaded in commits] == [True, True]


def test_a_log_of_odd_names_stops_nothing(kernel: Kernel, call: Call) -> None:
    location = str(document(create(kernel, call, "victim"))["location"])
    odd = ["", "file:///\0", "x" * 100_000, "file:///etc/passwd", "'; --"]
    forged_over(kernel, call, location, [*odd, *(f"file:///{number}" for number in range(2000))])
    commits = [kernel.commits.tables.commit(call, set_property("forged", "a", value)) for value in "123"]
    assert [path_of(loaded.metadata_location).exists() for loaded in commits] == [False, True, True]


def test_a_table_that_is_registered_twice_keeps_its_files(kernel: Kernel, call: Call) -> None:
    current = create(kernel, call, "t", properties=DELETING)
    kernel.commits.registration.register_table(call, ("ns",), "again", current.metadata_location or "")
    for value in "123":
        kernel.commits.tables.commit(call, set_property("t", "a", value))
    assert path_of(current.metadata_location).exists()


def test_files_from_before_an_entry_was_registered_over_stay(kernel: Kernel, call: Call) -> None:
    """The entry gets another UUID, and a twin of the old one still has the files in its log."""
    first = create(kernel, call, "t", properties=DELETING)
    second = kernel.commits.tables.commit(call, set_property("t", "a", "1"))
    kernel.commits.registration.register_table(call, ("ns",), "twin", second.metadata_location or "")
    # as a table that was copied with its log
    copied = document(second) | {"table-uuid": "0190a1b2-0000-7000-8000-000000000009"}
    copied["metadata-log"] = [
        {"timestamp-ms": 1, "metadata-file": first.metadata_location},
        {"timestamp-ms": 2, "metadata-file": second.metadata_location},
    ]
    file = path_of(second.metadata_location).with_name("copied.metadata.json")
    file.write_text(json.dumps(copied))
    kernel.commits.registration.register_table(call, ("ns",), "t", file.as_uri(), overwrite=True)
    kernel.commits.tables.commit(call, set_property("twin", "write.metadata.previous-versions-max", "9"))
    commits = [kernel.commits.tables.commit(call, set_property("t", "a", value)) for value in "345"]
    assert path_of(first.metadata_location).exists()
    assert path_of(second.metadata_location).exists()
    assert [path_of(loaded.metadata_location).exists() for loaded in commits] == [False, True, True]


def test_a_table_whose_files_are_being_purged_cannot_be_registered(kernel: Kernel, call: Call) -> None:
    location = create(kernel, call, "t").metadata_location or ""
    kernel.purge.drops.drop(call, table("t"), purge=True)
    with pytest.raises(ConflictError, match="are being deleted"):
        kernel.commits.registration.register_table(call, ("ns",), "back", location)
    assert not kernel.parts.entries.find_many(call, [(Privilege.WRITE_TABLE, table("back"))])


def test_a_metadata_file_that_was_changed_in_place_is_refused(kernel: Kernel, call: Call) -> None:
    created = create(kernel, call, "t", properties={"v": "one"})
    location = created.metadata_location or ""
    kernel.commits.registration.register_table(call, ("ns",), "t", location, overwrite=True)
    path_of(location).write_text(json.dumps(document(created) | {"properties": {"v": "two"}}))
    with pytest.raises(ConflictError, match="metadata files never change"):
        kernel.commits.registration.register_table(call, ("ns",), "t", location, overwrite=True)
    assert kernel.catalog.tables.load(call, table("t")).metadata == created.metadata


def test_a_requirement_on_a_table_that_is_not_changed_counts(kernel: Kernel, call: Call) -> None:
    """A table that a transaction only requires something of is dropped while the files are written."""
    create(kernel, call, "a")
    uuid = document(create(kernel, call, "b"))["table-uuid"]
    changes = [
        set_property("a", "x", "1"),
        change("b", [], [{"type": "assert-table-uuid", "uuid": uuid}]),
    ]
    write = kernel.parts.files.write

    def drop_then_write(*arguments: object) -> None:
        if kernel.parts.entries.find_many(call, [(Privilege.WRITE_TABLE, table("b"))]):
            kernel.purge.drops.drop(call, table("b"), purge=False)
        write(*arguments)  # type: ignore[arg-type]

    kernel.parts.files.write = drop_then_write  # type: ignore[method-assign]
    with pytest.raises(NoSuchTableError, match=r"Table does not exist: ns\.b"):
        kernel.commits.tables.commit_transaction(call, changes)
    properties = document(kernel.catalog.tables.load(call, table("a")))["properties"]
    assert isinstance(properties, dict)
    assert "x" not in properties
