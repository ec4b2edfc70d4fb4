from __future__ import annotations

import pytest
import sqlalchemy as sa

from floecat.errors import SettingsError
from floecat.store.database.engine import Store
from floecat.store.database.postgresql import _connect_args


@pytest.mark.parametrize(
    "url",
    ["", "nonsense", "hunter2", "postgresql://u:hunter2@host:port/db", "sqlite:relative", "://"],
)
def test_a_malformed_url(url: str) -> None:
    with pytest.raises(SettingsError, match="malformed") as error:
        Store.open(url)
    assert "hunter2" not in str(error.value)
    assert error.value.__cause__ is None


@pytest.mark.parametrize(
    "url", ["mysql://u:hunter2@h/d", "postgresql+psycopg2://u:hunter2@h/d", "postgresql+asyncpg://h/d"]
)
def test_another_database(url: str) -> None:
    with pytest.raises(SettingsError, match="sqlite or postgresql") as error:
        Store.open(url)
    assert "hunter2" not in str(error.value)


@pytest.mark.parametrize("scheme", ["postgres", "postgresql", "postgresql+psycopg"])
def test_spellings_of_postgresql(scheme: str) -> None:
    store = Store.open(f"{scheme}://anna@nowhere.invalid/db")
    assert store._url.drivername == "postgresql+psycopg"
    store.close()


def test_options_of_the_url_come_last() -> None:
    url = sa.make_url("postgresql+psycopg://h/d?options=-c%20lock_timeout%3D5&application_name=me")
    arguments = _connect_args(url, 1.5)
    options = arguments["options"].split("-c ")
    assert "statement_timeout=1500 " in options
    assert options.index("lock_timeout=1500 ") < options.index("lock_timeout=5")
    assert "search_path=floecat " in options
    assert arguments["application_name"] == "me"
    assert arguments["connect_timeout"] == 2


def test_migrations_have_no_time_limit() -> None:
    arguments = _connect_args(sa.make_url("postgresql+psycopg://h/d"), None)
    assert "statement_timeout=0" in arguments["options"]
    assert "idle_in_transaction" not in arguments["options"]
    assert arguments["application_name"] == "floecat"
