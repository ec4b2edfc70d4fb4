"""Steps of `dropped_tables.feature`."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import urlsplit

from pytest_bdd import given, parsers, scenarios, then, when

from benchmarks.large_tables import LargeTable
from tests.behaviour.purge.conftest import Service

scenarios("dropped_tables.feature")

_FIRST_MANIFEST = "0-m0.avro"


def path_of(location: str) -> Path:
    return Path(urlsplit(location).path)


def manifest_of(service: Service, name: str) -> str:
    return f"{service.tables[name].location}/metadata/{_FIRST_MANIFEST}"


@given(parsers.re(r"a service on (?P<storage>disk|an S3 server)$"), target_fixture="service")
def service_on(storage: str, start_service: Callable[..., Service]) -> Service:
    return start_service(storage)


@given("a service on disk whose purges have one attempt", target_fixture="service")
def service_with_one_attempt(start_service: Callable[..., Service]) -> Service:
    return start_service("disk", FLOECAT_PURGE_MAX_ATTEMPTS="1")


@given(parsers.parse('a table "{name}" of {files:d} files'))
@given(parsers.parse('a neighbour "{name}" of {files:d} files'))
def table(service: Service, name: str, files: int) -> None:
    service.make(name, files)


@given(parsers.parse('a table "{name}" of {files:d} files, of which {written:d} are there'))
def table_with_lost_files(service: Service, name: str, files: int, written: int) -> None:
    service.make(name, files, written=written)


@given(parsers.parse("{tables:d} tables of {files:d} files each"))
def many_tables(service: Service, tables: int, files: int) -> None:
    for number in range(tables):
        service.make(f"t{number}", files)


@given(parsers.parse('a manifest of "{name}" is damaged'), target_fixture="intact")
def damaged(service: Service, name: str, tmp_path: Path) -> Path:
    manifest = path_of(manifest_of(service, name))
    intact = tmp_path / manifest.name
    shutil.copy(manifest, intact)
    manifest.write_bytes(b"no manifest")
    return intact


@when(parsers.parse('"{name}" is dropped with purge'), target_fixture="first")
def dropped_with_purge(service: Service, name: str) -> LargeTable:
    if f"{name}2" in service.tables:
        service.loads.start(f"{name}2")
    service.drop(name, purge=True)
    return service.tables[name]


@when(parsers.parse('"{name}" is dropped without purge'))
def dropped_without_purge(service: Service, name: str) -> None:
    service.drop(name, purge=False)


@when(parsers.parse('"{name}" is registered again'), target_fixture="before")
def registered_again(service: Service, name: str) -> object:
    before = service.documents[name]
    service.register(name)
    return before


@when(parsers.parse('a table "{name}" of {files:d} files is made at another location at once'))
def made_again(service: Service, name: str, files: int) -> None:
    service.make(name, files, folder=f"{name}-again")


@when("the manifest is repaired and the purge retried")
def repaired(service: Service, intact: Path) -> None:
    shutil.copy(intact, path_of(manifest_of(service, "orders")))
    (purge,) = service.purges("orders")
    service.http.post(f"{service.management}/{purge['id']}/retry").raise_for_status()


@when(parsers.parse("{clients:d} clients drop all of them with purge, each at most once"))
def dropped_by_clients(service: Service, clients: int) -> None:
    def drop(names: list[str]) -> None:
        with service.client() as client:
            for name in names:
                service.drop(name, purge=True, client=client)

    names = list(service.tables)
    with ThreadPoolExecutor(clients) as pool:
        list(pool.map(drop, [names[number::clients] for number in range(clients)]))


@then(parsers.parse("the drop was answered within {seconds:d} seconds"))
@then(parsers.parse("every drop was answered within {seconds:d} seconds"))
def answered_within(service: Service, seconds: int) -> None:
    drops = sorted(service.drops_s)
    print(
        f"{len(drops)} drops, the slowest after {drops[-1] * 1000:.1f} ms, half after"
        f" {drops[len(drops) // 2] * 1000:.1f} ms"
    )
    assert drops[-1] < seconds


@then(parsers.parse('"{name}" does not exist'))
def does_not_exist(service: Service, name: str) -> None:
    assert not service.exists(name)


@then(parsers.parse('"{name}" is as it was'))
def is_as_it_was(service: Service, name: str) -> None:
    assert service.load(name) == service.documents[name]
    assert service.left(name) == service.files[name]


@then(parsers.parse('there is no purge of "{name}"'))
def no_purge(service: Service, name: str) -> None:
    assert service.purges(name) == []


@then(parsers.parse('its purge succeeds, with every file of "{name}" counted as deleted'))
def purge_succeeds_and_counts(service: Service, name: str) -> None:
    purge = service.ended(name)
    progress = purge["progress"]
    took_s = (purge["finished-at-ms"] - purge["started-at-ms"]) / 1000
    print(f"{progress['deleted']} files deleted in {took_s:.1f} s")
    assert (purge["state"], progress["failed"], set(progress["kept"].values())) == ("succeeded", 0, {0})
    assert progress["found"] == progress["deleted"] == service.tables[name].files


@then("its purge succeeds")
def purge_succeeds(service: Service) -> None:
    assert service.ended("orders")["state"] == "succeeded"


@then(parsers.parse('the purge of the first "{name}" succeeds'))
def first_purge_succeeds(service: Service, name: str, first: LargeTable) -> None:
    purge = service.ended(name)
    assert (purge["state"], purge["location"]) == ("succeeded", first.location)
    assert service.lake.files(first.location) == set()


@then("its purge ends as a dead letter that names the manifest")
def dead_letter(service: Service) -> None:
    purge = service.ended("orders")
    assert purge["state"] == "failed"
    assert _FIRST_MANIFEST in purge["last-error"]


@then('the metadata file of "orders" and what leads to the manifest are still there')
def parents_are_there(service: Service) -> None:
    table = service.tables["orders"]
    # both lists name the manifest; the first of them leads to it
    parents = {table.metadata_location, f"{table.location}/metadata/snap-1.avro"}
    assert {manifest_of(service, "orders"), *parents} <= service.left("orders")


@then("a listing finds only files that the manifest and its parents need")
def the_rest_is_gone(service: Service) -> None:
    left = service.left("orders")
    in_first_manifest = min(1000, service.tables["orders"].files)
    data = [location for location in left if "/data/" in location]
    assert len(data) <= in_first_manifest
    manifests = [location for location in left if location.endswith("-m0.avro")]
    assert manifests == [manifest_of(service, "orders")]


@then(parsers.parse('a listing finds no file of "{name}"'))
def nothing_is_left(service: Service, name: str) -> None:
    assert service.left(name) == set()


@then(parsers.parse('a listing finds every file of "{name}"'))
def everything_is_left(service: Service, name: str) -> None:
    assert service.left(name) == service.files[name]


@then("a listing finds no file")
def no_file_at_all(service: Service) -> None:
    assert service.lake.files(service.root) == set()


@then(parsers.parse('loads of "{name}" were answered within {seconds:d} seconds meanwhile'))
def loads_were_fast(service: Service, name: str, seconds: int) -> None:
    service.loads.stop()
    print(f"{service.loads.count} loads of {name}, the slowest after {service.loads.slowest_s * 1000:.1f} ms")
    assert service.loads.count > 0
    assert service.loads.slowest_s < seconds


@then("every table has one purge, and all succeed")
def all_succeed(service: Service) -> None:
    assert {service.ended(name)["state"] for name in service.tables} == {"succeeded"}
