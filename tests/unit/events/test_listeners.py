from __future__ import annotations

import pytest

from floecat.errors import SettingsError
from floecat.events.listeners import EventListeners
from floecat.events.table_events import TableEvent

not_callable = 3
seen: list[TableEvent] = []


def remember(event: TableEvent) -> None:
    seen.append(event)


def test_listeners_are_named_by_their_place() -> None:
    seen.clear()
    listeners = EventListeners.named([f"{__name__}:remember"] * 2)
    event = object()
    listeners.emit(event)  # type: ignore[arg-type]
    assert seen == [event, event]
    assert listeners.failures == 0


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ("remember", "is not of the form package.module:Name"),
        ("tests.nowhere:remember", "cannot be imported"),
        (f"{__name__}:missing", "cannot be imported"),
        (f"{__name__}:not_callable", "cannot be called"),
    ],
)
def test_a_listener_that_cannot_be_used_stops_the_start(place: str, message: str) -> None:
    with pytest.raises(SettingsError, match=f"floecat.events.listeners: .*{message}"):
        EventListeners.named([place])
