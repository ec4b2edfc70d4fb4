"""What a connector takes from the place that it searches, and when."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

import msgspec

__all__ = ["ConnectorPolicy", "decode_policy", "encode_policy"]

_LATEST: Final = "latest-"


class ConnectorPolicy(msgspec.Struct, frozen=True, rename="kebab", forbid_unknown_fields=True):
    """The policy of a connector, beside its interval."""

    mode: Literal["metadata-only", "metadata-and-capture", "capture-only"] = "metadata-and-capture"
    """Whether scans take tables, have their snapshots captured, or both."""
    snapshots: Annotated[str, msgspec.Meta(pattern="^(current|all|latest-[1-9][0-9]{0,5})$")] = "current"
    """Snapshots of a table that are captured: `current`, `all` or, as `latest-5`, the newest ones."""
    full: bool = False
    """Whether each scan reads every table again, and each capture every file; otherwise what has changed."""
    max_parallel: Annotated[int, msgspec.Meta(ge=1, le=32)] = 4
    """Most tables that a scan loads from another catalog at once, and holds in memory."""
    not_before_ms: Annotated[int, msgspec.Meta(ge=0)] | None = None
    """Time before which no schedule scans, in ms since the epoch."""
    namespaces: tuple[str, ...] = ()
    """Patterns of namespaces that it takes, as `sales`, `raw.*` or `!*.tmp`; see `Selection`."""
    tables: tuple[str, ...] = ()
    """The same of the names of tables and views."""

    @property
    def takes_metadata(self) -> bool:
        """Whether scans bring tables here."""
        return self.mode != "capture-only"

    @property
    def captures(self) -> bool:
        """Whether snapshots are captured."""
        return self.mode != "metadata-only"

    def newest(self, most: int) -> int:
        """Number of newest snapshots that are captured, at most a number; 0 for the current one alone."""
        if self.snapshots == "current":
            return 0
        return most if self.snapshots == "all" else min(most, int(self.snapshots.removeprefix(_LATEST)))


def encode_policy(policy: ConnectorPolicy) -> str:
    """The policy as it is stored."""
    return msgspec.json.encode(policy).decode()


def decode_policy(stored: Any) -> ConnectorPolicy:
    """The policy that was stored."""
    return msgspec.json.decode(stored, type=ConnectorPolicy)
