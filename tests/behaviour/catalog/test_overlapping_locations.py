"""Below a storage authority no table is made whose folders overlap with those of another one."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from msgspec import Raw

from floecat.auth.authorizer import AllowAll
from floecat.auth.principals import Principal
from floecat.commits.commit import CreateTable
from floecat.commits.view_commits import CreateView
from floecat.entries.calls import Call
from floecat.errors import BadRequestError
from floecat.settings import CatalogAccessSettings, S3Settings
from tests.behaviour.catalog.changes import SCHEMA, change, create, set_property, table
from tests.behaviour.catalog.lakes import Lakes, opened
from tests.behaviour.catalog.test_costs import cost_of
from tests.services.s3 import S3Server
from tests.view_documents import view_version

REFUSAL = r"floecat\.storage\.overlapping-locations"


FOLDERS = ["a/t", "a/t/", "a", "a/t/deeper", "a/t/data"]
BESIDE = ["a/t1", "a/t-2", "a/u", "b/t", "a/T"]


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_table_in_or_around_another_one_is_refused(lakes: Lakes, folder: str) -> None:
    lakes.authority()
    lakes.create("t", "a/t")
    with pytest.raises(BadRequestError, match=REFUSAL):
        lakes.create("other", folder)
    stage = CreateTable(name="other", schema=SCHEMA, location=lakes.at(folder), stage_create=True)
    with pytest.raises(BadRequestError, match=REFUSAL):
        lakes.kernel.commits.tables.stage_table(lakes.call, ("ns",), stage, None)
    with pytest.raises(BadRequestError, match=REFUSAL):
        lakes.kernel.commits.views.create(lakes.call, ("ns",), view(lakes.at(folder)))


def view(location: str) -> CreateView:
    return CreateView("v", SCHEMA, Raw(json.dumps(view_version()).encode()), location=location)


@pytest.mark.parametrize("folder", BESIDE)
def test_a_table_beside_another_one_is_made(lakes: Lakes, folder: str) -> None:
    lakes.authority()
    lakes.create("t", "a/t")
    lakes.create("other", folder)
    assert not lakes.is_outer("t")
    assert not lakes.is_outer("other")


def test_folders_that_properties_name_count(lakes: Lakes) -> None:
    lakes.authority()
    lakes.create("t", "a/t", properties={"write.data.path": lakes.at("files/t")})
    lakes.create("u", "a/u")
    for key in ("write.data.path", "write.metadata.path", "write.object-storage.path"):
        with pytest.raises(BadRequestError, match=REFUSAL):
            lakes.create("other", "a/other", properties={key: lakes.at("files")})
        with pytest.raises(BadRequestError, match=REFUSAL):
            lakes.kernel.commits.tables.commit(lakes.call, set_property("u", key, lakes.at("files/t/x")))
    lakes.kernel.commits.tables.commit(lakes.call, set_property("u", "write.data.path", lakes.at("files/u")))
    with pytest.raises(BadRequestError, match=REFUSAL):
        lakes.create("other", "files/u")


def test_a_table_may_not_move_into_another_one_and_keeps_its_old_folder(lakes: Lakes) -> None:
    lakes.authority()
    lakes.create("t", "a/t")
    lakes.create("u", "a/u")
    commit = lakes.kernel.commits.tables.commit
    with pytest.raises(BadRequestError, match=REFUSAL):
        commit(lakes.call, change("u", [{"action": "set-location", "location": lakes.at("a/t/u")}]))
    commit(lakes.call, change("u", [{"action": "set-location", "location": lakes.at("a/moved")}]))
    for folder in ("a/moved", "a/u"):
        with pytest.raises(BadRequestError, match=REFUSAL):
            lakes.create("other", folder)
    commit(lakes.call, change("u", [{"action": "set-location", "location": lakes.at("a/u")}]))


def test_a_transaction_makes_no_overlapping_tables(lakes: Lakes) -> None:
    lakes.authority()
    lakes.create("t", "a/t")
    lakes.create("u", "a/u")
    moves = [
        change(name, [{"action": "set-location", "location": lakes.at(folder)}])
        for name, folder in (("t", "b"), ("u", "b/u"))
    ]
    with pytest.raises(BadRequestError, match=REFUSAL):
        lakes.kernel.commits.tables.commit_transaction(lakes.call, moves)
    lakes.create("other", "b")


def test_metadata_of_another_table_is_not_registered(lakes: Lakes) -> None:
    lakes.authority()
    made = lakes.create("t", "a/t")
    register = lakes.kernel.commits.registration.register_table
    with pytest.raises(BadRequestError, match=REFUSAL):
        register(lakes.call, ("ns",), "stolen", made["file"])
    lakes.create("own", "a/own")
    # a document with a location of its own, in the folder of another table
    document = {key: value for key, value in made.items() if key != "file"}
    place = lakes.at("a/t/metadata/00000-x.metadata.json")
    files = lakes.call.catalog.storage.files(place)
    files.write_new(place, json.dumps({**document, "location": lakes.at("a/new")}).encode())
    with pytest.raises(BadRequestError, match=REFUSAL):
        register(lakes.call, ("ns",), "stolen", place)
    with pytest.raises(BadRequestError, match=REFUSAL):
        register(lakes.call, ("ns",), "own", made["file"], overwrite=True)
    # its own files, also once it is dropped
    register(lakes.call, ("ns",), "t", made["file"], overwrite=True)
    lakes.kernel.catalog.tables.drop(lakes.call, table("t"))
    register(lakes.call, ("ns",), "again", made["file"])


def test_without_an_authority_tables_overlap_as_before(lakes: Lakes) -> None:
    lakes.authority("/elsewhere")
    lakes.authority("/a", enabled=False)
    lakes.create("t", "a/t")
    lakes.create("inner", "a/t/inner")
    assert lakes.is_outer("t")
    assert not lakes.is_outer("inner")
    lakes.create("twin", "a/t/inner")
    assert lakes.is_outer("inner")
    assert lakes.is_outer("twin")
    lakes.kernel.catalog.tables.drop(lakes.call, table("twin"))
    assert not lakes.is_outer("inner")


def test_the_setting_allows_them(store_url: str, s3_server: S3Server, s3_bucket: str, tmp_path: Path) -> None:
    kernel = opened(store_url, s3_server, tmp_path, overlapping_locations="allow")
    lakes = Lakes(kernel, s3_bucket)
    lakes.authority()
    lakes.create("t", "a/t")
    lakes.create("inner", "a/t/inner")
    assert lakes.is_outer("t")
    kernel.close()


def test_tables_of_other_accounts_count_and_are_not_named(lakes: Lakes) -> None:
    other = lakes.kernel.access.accounts.create("other").id
    theirs = lakes.catalog("theirs", other)
    lakes.authority()
    lakes.create("secretname", "a/secretfolder", theirs)
    with pytest.raises(BadRequestError, match=REFUSAL) as refused:
        lakes.create("t", "a")
    assert "secret" not in str(refused.value)
    # nor do they take the keys to a table away by making one inside, which have no authority of their own
    lakes.create("t", "c/t")
    with pytest.raises(BadRequestError, match=REFUSAL):
        lakes.create("inner", "c/t/inner", theirs)
    lakes.create("apart", "d/t", theirs)
    lakes.create("within", "d/t/inner", theirs, properties={"k": "v"})


def test_catalogs_on_other_stores_overlap_within_an_account_alone(
    store_url: str, s3_server: S3Server, s3_bucket: str, tmp_path: Path
) -> None:
    keys = S3Settings(
        endpoint="http://127.0.0.1:1", path_style_access=True, access_key_id="a", secret_access_key="b"
    )
    kernel = opened(store_url, s3_server, tmp_path)
    first = Lakes(kernel, s3_bucket)
    first.authority()
    first.create("t", "a/t")
    kernel.close()
    moved = opened(store_url, s3_server, tmp_path, catalogs={"lake": CatalogAccessSettings(s3=keys)})
    theirs = moved.access.accounts.create("other").id
    own, others = (
        Call(
            Principal("tester", account),
            AllowAll(),
            moved.catalog.catalogs.create(account, "here", f"s3://{s3_bucket}"),
        )
        for account in (first.account, theirs)
    )
    for call in (own, others):
        moved.catalog.namespaces.create(call, ("ns",), {})
    # the authority of the account makes keys to one store, for all of its catalogs
    with pytest.raises(BadRequestError, match=REFUSAL):
        create(moved, own, "t", location=f"s3://{s3_bucket}/a/t")
    create(moved, others, "t", location=f"s3://{s3_bucket}/a/t")
    moved.close()


def test_of_two_creates_at_once_one_is_refused(lakes: Lakes) -> None:
    lakes.authority()
    calls = [lakes.call, lakes.catalog("second", lakes.account)]

    def made(number: int) -> bool:
        try:
            lakes.create(f"t{number}", f"a/{number // 4}" + "/x" * (number % 4), calls[number % 2])
        except BadRequestError:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        outcomes = list(pool.map(made, range(24)))
    assert [sum(outcomes[at : at + 4]) for at in range(0, 24, 4)] == [1] * 6


def test_what_the_rule_costs(lakes: Lakes) -> None:
    lakes.create("first", "a/first")
    commits = lakes.kernel.commits.tables
    without = cost_of(lakes.kernel, lambda: lakes.create("t", "a/t"))
    lakes.authority()
    below = cost_of(lakes.kernel, lambda: lakes.create("u", "a/u"))
    assert below.statements == without.statements
    before = cost_of(lakes.kernel, lambda: commits.commit(lakes.call, set_property("u", "k", "v")))
    moved = change("u", [{"action": "set-location", "location": lakes.at("a/v")}])
    after = cost_of(lakes.kernel, lambda: commits.commit(lakes.call, moved))
    assert after.statements == before.statements + 3
