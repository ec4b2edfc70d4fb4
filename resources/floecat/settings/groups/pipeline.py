"""The pipeline: connectors, events, Spark."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from floecat.settings.fields import SettingsGroup
from floecat.settings.kinds import Duration, duration, integer, mapping, text, text_list

__all__ = ["ConnectorSettings", "EventSettings", "PipelineSettings", "SparkSettings"]

_MINUTE = Duration(60_000)


class EventSettings(SettingsGroup, frozen=True, kw_only=True):
    """Events of tables, for other packages."""

    listeners: Annotated[tuple[str, ...], text_list()] = ()
    """Functions that are called with each event, as `package.module:function`."""


class ConnectorSettings(SettingsGroup, frozen=True, kw_only=True):
    """Connectors, which find tables that are in storage already."""

    kinds: Annotated[tuple[str, ...], text_list()] = ()
    """Kinds beside the built-in ones, as `package.module:Class`. Only these are ever imported."""

    allowed_hosts: Annotated[tuple[str, ...], text_list()] = ()
    """Hosts of other catalogs, and of the services where connectors log in, as `catalog.example.com` or
    `*.example.com`: connectors connect to no other."""

    ca_file: Annotated[str | None, text()] = None
    """File in PEM with certificates of authorities that those of other catalogs, and of the services where
    connectors log in, may be of, beside those of the system (which `SSL_CERT_FILE` replaces)."""

    token_commands: Annotated[Mapping[str, str], mapping(secret=True)] = {}
    """Commands that print a token for the login of connectors, by the name that credentials give, as
    `lake = "gcloud auth print-access-token"`. They run without a shell, as the user of the service."""

    gone_table_grace: Annotated[Duration, duration()] = Duration(86_400_000)
    """Time that a table or view stays that follows another catalog and is gone there. It is readable in the
    meantime. Then a scan removes it, and no file."""


class PipelineSettings(SettingsGroup, frozen=True, kw_only=True):
    """Tables in Dagster."""

    table_assets: Annotated[int, integer(minimum=0)] = 2_000
    """Most tables and views, the oldest first, that are defined as assets of their own, and so are found by
    Dagster's search. Commits of the others are events only. Each costs every browser 1 KB per visit."""

    reload_interval: Annotated[Duration, duration(floor=_MINUTE)] = Duration(5 * 60_000)
    """Shortest time between two definitions of assets, which follow changed names of tables: every open
    browser then fetches all of them."""

    dropped_table_grace: Annotated[Duration, duration()] = Duration(7 * 86_400_000)
    """Time that the events of a table that was dropped or renamed stay under its old name."""

    webserver_url: Annotated[str | None, text()] = None
    """URL where Dagster's daemon reaches Dagster's web server, as `http://127.0.0.1:3000`, to have assets
    defined again. `floecat up` and `floecat dagster` set it."""

    catalog_url: Annotated[str | None, text()] = None
    """URL where people reach the REST service, as `https://catalog.example.com`: assets link to their tables
    there. `floecat up` sets it. Without it there are no links."""


class SparkSettings(SettingsGroup, frozen=True, kw_only=True):
    """Spark, on which the pipeline builds what many files have to be opened for."""

    master: Annotated[str | None, text()] = None
    """URL of a master, as `spark://host:7077` or `local[4]`. Default: what Spark's own configuration says,
    else all cores of the machine that the run is on."""

    remote: Annotated[str | None, text(secret=True)] = None
    """URL of a Spark Connect server, as `sc://host:15002`, instead of a master. Default: `SPARK_REMOTE`."""

    conf: Annotated[Mapping[str, str], mapping(secret=True)] = {}
    """Properties of Spark, as `spark.executor.memory = "4g"`."""
