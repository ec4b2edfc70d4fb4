"""Commits: their retries."""

from __future__ import annotations

from typing import Annotated

from floecat.settings.fields import SettingsGroup
from floecat.settings.kinds import integer

__all__ = ["BackoffSettings", "CommitSettings"]


class BackoffSettings(SettingsGroup, frozen=True, kw_only=True):
    """A bounded number of tries with a sleep between them that doubles."""

    max_attempts: Annotated[int, integer(minimum=1, maximum=1000)]
    """Tries in all."""

    initial_sleep_ms: Annotated[int, integer(maximum=60_000)]
    """Sleep before the second try. It doubles before each further one."""

    max_sleep_ms: Annotated[int, integer(maximum=600_000)]
    """The sleep never grows beyond this."""


class CommitSettings(SettingsGroup, frozen=True, kw_only=True):
    """Commits that meet another one, or a store that does not answer."""

    confirm: BackoffSettings = BackoffSettings(max_attempts=6, initial_sleep_ms=25, max_sleep_ms=200)
    """Looks whether a commit of unknown outcome was applied, before the answer says so."""

    replan: BackoffSettings = BackoffSettings(max_attempts=40, initial_sleep_ms=5, max_sleep_ms=500)
    """Starts again from the newest metadata when another commit changed a table of this one."""

    purge_wait_ms: Annotated[int, integer(minimum=0)] = 10_000
    """Longest time that a commit, or a registration, waits while a purge deletes files in folders where it
    adds some. Then it is answered 503."""
