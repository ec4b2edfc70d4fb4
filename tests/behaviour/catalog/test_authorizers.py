"""Who decides: by name, of another package, and what holds whoever decides."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib.metadata import EntryPoint
from uuid import UUID

import msgspec
import pytest

from floecat.access import authorizers
from floecat.auth.authorizer import Authorizer, Check, FoundSecurable
from floecat.auth.principals import Principal
from floecat.entries.calls import Call
from floecat.errors import ForbiddenError, SettingsError, StoreUnavailableError, UnavailableError
from floecat.runtime import Kernel
from floecat.settings import Settings
from floecat.settings.groups.process import AuthSettings, OpaSettings
from floecat.store.database.engine import Connection
from tests.behaviour.catalog.changes import create, table


class OnlyMo(Authorizer):
    """Of another package: `mo` may do everything."""

    def __init__(self, _: Settings) -> None:
        self.asked = 0
        self.closed = False

    def allowed(
        self, principal: Principal, checks: Sequence[Check], _found: FoundSecurable | None = None, /
    ) -> Sequence[bool]:
        self.asked += 1
        return [principal.name == "mo"] * len(checks)

    def owner(self, _conn: Connection, _principal: Principal, /) -> UUID | None:
        return None

    def close(self) -> None:
        self.closed = True


def broken(_: Settings) -> Authorizer:
    raise KeyError("a secret")


def another(_: Settings) -> object:
    return object()


@pytest.fixture
def opened(kernel: Kernel, call: Call, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Kernel]:
    """Opens a kernel with `auth`, and a package whose authorizer is at a place of this module."""
    create(kernel, call, "t")

    def made(place: str = "OnlyMo", **auth: object) -> Kernel:
        point = EntryPoint("only-mo", f"{__name__}:{place}", authorizers.ENTRY_POINTS)
        monkeypatch.setattr(authorizers, "entry_points", lambda **by: [point] * (by["name"] == "only-mo"))
        settings = msgspec.structs.replace(
            kernel.settings,
            auth=AuthSettings(**{"authorizer": "only-mo", "operators": "ops"} | auth),  # type: ignore[arg-type]
            gateway=msgspec.structs.replace(kernel.settings.gateway, auth_mode="oidc"),
        )
        return Kernel(settings, kernel.store, kernel.files, kernel.clock)

    return made


def _call(kernel: Kernel, like: Call, name: str, *groups: str) -> Call:
    return kernel.catalog.calls.open(Principal(name, like.account_id, groups=groups), "floecat")


def test_one_of_another_package_decides(opened: Callable[..., Kernel], call: Call) -> None:
    kernel = opened()
    create(kernel, _call(kernel, call, "mo"), "made")
    with pytest.raises(ForbiddenError, match="eve does not have the privilege use_catalog"):
        _call(kernel, call, "eve")
    create(kernel, _call(kernel, call, "eve", "ops"), "of-an-operator")
    decides = kernel.access.authorizer._decides._decides  # type: ignore[attr-defined]
    kernel.background.stop()
    assert decides.closed


def test_who_is_disabled_is_not_asked_about(
    opened: Callable[..., Kernel], kernel: Kernel, call: Call
) -> None:
    secured = opened()
    mo = _call(secured, call, "mo")
    secured.catalog.tables.load(mo, table("t"))
    kernel.access.principals.set_disabled(call, "mo", disabled=True)
    decides = secured.access.authorizer._decides._decides  # type: ignore[attr-defined]
    asked = decides.asked
    with pytest.raises(ForbiddenError, match="Principal mo is disabled"):
        secured.catalog.tables.load(mo, table("t"))
    assert decides.asked == asked
    secured.background.stop()


@pytest.mark.parametrize("store_url", ["sqlite"], indirect=True)
def test_nobody_is_asked_on_an_event_loop(opened: Callable[..., Kernel], call: Call) -> None:
    """A local store is read on the loop; what waits for others goes on to a thread."""
    kernel = opened()
    mo = _call(kernel, call, "mo")
    kernel.catalog.tables.load(mo, table("t"))
    decides = kernel.access.authorizer._decides._decides  # type: ignore[attr-defined]
    asked = decides.asked
    with kernel.store.reading_at_once() as reads:
        assert reads
        for work in (
            lambda: kernel.catalog.fast_loads.load(mo, table("t"), "all", None),
            lambda: kernel.catalog.tables.exists(mo, table("t")),
            lambda: kernel.catalog.calls.open(mo.principal, "floecat"),
        ):
            with pytest.raises(StoreUnavailableError):
                work()
    assert decides.asked == asked
    kernel.background.stop()


@pytest.mark.parametrize(
    ("place", "auth", "told"),
    [
        ("OnlyMo", {"authorizer": "other"}, "'other' is not allow-all, grants, opa, or an entry point"),
        ("missing", {}, "cannot be imported"),
        ("broken", {}, "cannot be made: KeyError$"),
        ("another", {}, "makes no Authorizer: it has to inherit it"),
        ("__doc__", {}, "is no function of the settings"),
        ("OnlyMo", {"authorizer": "opa"}, r"floecat\.auth\.opa\.url"),
    ],
)
def test_a_wrong_setting_stops_the_start(
    opened: Callable[..., Kernel], place: str, auth: dict[str, object], told: str
) -> None:
    with pytest.raises(SettingsError, match=told) as error:
        opened(place, **auth)
    assert "a secret" not in error.value.message


def test_opa_that_is_away_opens_no_door(opened: Callable[..., Kernel], call: Call) -> None:
    kernel = opened(authorizer="opa", opa=OpaSettings(url="http://127.0.0.1:9/", timeout_ms=500))
    with pytest.raises(UnavailableError, match="does not decide, so nothing is done"):
        _call(kernel, call, "mo")
    _call(kernel, call, "eve", "ops")
    kernel.background.stop()
