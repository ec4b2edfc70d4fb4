"""Settings with another name since this version. The former one is read for one version, with a warning."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from floecat.settings.kinds import Duration

__all__ = ["FORMER_NAMES", "FormerName", "warn_of_former_name"]

_HOUR_MS = 3_600_000

_log = logging.getLogger(__name__)


class FormerName(NamedTuple):
    """What a former name stands for."""

    key: str
    """The name since this version."""
    expected: str = ""
    """The accepted values, if the new name takes others."""
    convert: Callable[[object], object] | None = None
    """The value as the new name takes it, if that is another; `ValueError` or `TypeError` if malformed."""


def _hours(value: object) -> int:
    if not isinstance(value, str):
        raise TypeError("not text")
    return -(-Duration.parse(value).ms // _HOUR_MS)


FORMER_NAMES: Final[Mapping[str, FormerName]] = {
    "floecat.purge.batch-size": FormerName("floecat.purge.files-per-call"),
    "floecat.purge.workers": FormerName("floecat.purge.worker-threads"),
    "floecat.purge.lease-ms": FormerName("floecat.purge.lease-timeout-ms"),
    "floecat.purge.retention": FormerName(
        "floecat.purge.completed-retention-hours", "an ISO-8601 duration such as PT30M", _hours
    ),
}
"""By former name."""


def warn_of_former_name(name: str, source: str) -> None:
    """Says which name to use instead."""
    _log.warning(
        "%s (%s) is called %s now; the next version refuses it", name, source, FORMER_NAMES[name].key
    )
