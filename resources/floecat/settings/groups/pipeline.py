"""The pipeline: connectors, events, Spark."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from floecat.settings.fields import Group
from floecat.settings.kinds import mapping, text, text_list

__all__ = ["ConnectorSettings", "EventSettings", "SparkSettings"]


class EventSettings(Group, frozen=True, kw_only=True):
    """What happens to tables, for other packages."""

    listeners: Annotated[tuple[str, ...], text_list()] = ()
    """Functions that are called with each event, as `package.module:function`."""


class ConnectorSettings(Group, frozen=True, kw_only=True):
    """Connectors, which find tables that are in storage already."""

    kinds: Annotated[tuple[str, ...], text_list()] = ()
    """Kinds beside the built-in `delta`, as `package.module:Class`. Only these are ever imported."""


class SparkSettings(Group, frozen=True, kw_only=True):
    """Spark, on which the pipeline builds what many files have to be opened for."""

    master: Annotated[str | None, text()] = None
    """URL of a master, as `spark://host:7077` or `local[4]`. Default: what Spark's own configuration says,
    else all cores of the machine that the run is on."""

    remote: Annotated[str | None, text(secret=True)] = None
    """URL of a Spark Connect server, as `sc://host:15002`, instead of a master. Default: `SPARK_REMOTE`."""

    conf: Annotated[Mapping[str, str], mapping(secret=True)] = {}
    """Properties of Spark, as `spark.executor.memory = "4g"`."""
