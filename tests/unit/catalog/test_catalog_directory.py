"""Catalogs are created by those who may, where operators allow it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from floecat.auth.authorizer import Privilege
from floecat.auth.principals import Principal
from floecat.catalog.catalog_directory import NewCatalog
from floecat.errors import AlreadyExistsError, BadRequestError, ForbiddenError, LocationNotAllowedError
from floecat.runtime import Kernel, open_kernel
from floecat.settings import Settings, StorageSettings, StoreSettings
from tests.grants import Grants


@pytest.fixture
def grants() -> Grants:
    found = Grants()
    found.grant("anna", Privilege.CREATE_CATALOG, "new")
    for name in ("new", "old"):
        found.grant("anna", Privilege.USE_CATALOG, name)
    return found


@pytest.fixture
def kernel(tmp_path: Path, upgraded_store: Callable[[str], str], grants: Grants) -> Iterator[Kernel]:
    storage = StorageSettings(fsync=False, addable_locations=((tmp_path / "lakes").as_uri(),))
    store = StoreSettings(url=upgraded_store("sqlite"))
    settings = Settings(data_dir=str(tmp_path / "data"), store=store, storage=storage)
    opened = open_kernel(settings)
    account = settings.gateway.default_account_id
    for name in ("old", "secret"):
        opened.catalog.catalogs.create(account, name, (tmp_path / name).as_uri())
    yield Kernel(settings, opened.store, opened.files, opened.clock, grants)
    opened.close()


def anna(kernel: Kernel) -> Principal:
    return Principal("anna", kernel.settings.gateway.default_account_id)


def test_a_catalog_is_created_and_seen(kernel: Kernel, tmp_path: Path) -> None:
    place = (tmp_path / "lakes" / "new").as_uri()
    (tmp_path / "lakes" / "new").mkdir(parents=True)
    made = kernel.catalog.directory.create(anna(kernel), NewCatalog("new", place, [f"{place}-more"]))
    assert (made.storage_location, list(made.allowed_locations)) == (place, [f"{place}-more"])
    assert [catalog.name for catalog in kernel.catalog.directory.list(anna(kernel)).items] == ["new", "old"]
    assert list((tmp_path / "lakes" / "new").iterdir()) == []
    with pytest.raises(AlreadyExistsError):
        kernel.catalog.directory.create(anna(kernel), NewCatalog("new", place))


def test_what_may_not_be_created(kernel: Kernel, tmp_path: Path) -> None:
    inside, outside = ((tmp_path / name / "x").as_uri() for name in ("lakes", "elsewhere"))
    with pytest.raises(ForbiddenError, match="create_catalog on catalog other"):
        kernel.catalog.directory.create(anna(kernel), NewCatalog("other", inside))
    for wanted in (NewCatalog("new", outside), NewCatalog("new", inside, [outside])):
        with pytest.raises(LocationNotAllowedError):
            kernel.catalog.directory.create(anna(kernel), wanted)
    many = [f"{inside}/{number}" for number in range(kernel.settings.limits.catalog_locations + 1)]
    with pytest.raises(BadRequestError, match=r"floecat\.limits\.catalog-locations"):
        kernel.catalog.directory.create(anna(kernel), NewCatalog("new", inside, many))
    assert [catalog.name for catalog in kernel.catalog.directory.list(anna(kernel)).items] == ["old"]
