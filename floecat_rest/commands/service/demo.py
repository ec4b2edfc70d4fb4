"""`floecat demo`: a few small tables to look at."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Callable
from typing import Annotated

import typer
from rich.progress import Progress

from floecat.errors import BadRequestError, SettingsError, UnavailableError
from floecat.settings import Settings
from floecat.settings.loading import TOKEN_VARIABLE
from floecat_rest.commands.console import err, install, out, print_done, print_plain
from floecat_rest.commands.options import ConfigOption, settings_from

__all__ = ["demo", "load_once"]

_FAR_FUTURE_MS = "4102444800000"
_MISSING = f"demo data is written by PyIceberg, which is not installed: {install('demo')} brings it"


def demo(
    *,
    config: ConfigOption = None,
    url: Annotated[str, typer.Option("--url", help="A running service.")] = "http://127.0.0.1:9200",
    catalog: Annotated[str, typer.Option("--catalog", help="Name of the catalog.")] = "floecat",
    token: Annotated[
        str | None,
        typer.Option("--token", envvar=TOKEN_VARIABLE, help="Bearer token, where a login is needed."),
    ] = None,
) -> None:
    """Load demo data into a running service: tables with history, a view. Safe to repeat."""
    if not _pyiceberg_is_installed():
        raise SettingsError(_MISSING)
    if re.match(r"https?://[^/]", url) is None:
        raise BadRequestError(f"Invalid --url: {url!r}, expected one such as http://127.0.0.1:9200")
    properties = _storage_properties(settings_from(config)) | ({"token": token} if token else {})
    from floecat_rest.demo_data import load, steps

    with Progress(console=out, disable=not out.is_terminal) as progress:
        task = progress.add_task("Demo data", total=len(steps()))
        load(url, catalog, lambda _: progress.advance(task), properties)
    out.print("Demo data is loaded: namespace demo.")


def load_once(settings: Settings, url: str, tell: Callable[[str], None], check: Callable[[], None]) -> None:
    """Load demo data into an empty default catalog, or finish a load that was interrupted.

    Args:
        settings: those of the service.
        url: the running service.
        tell: shows what is being done.
        check: called between steps; what it raises ends the loading.
    """
    if not _pyiceberg_is_installed():
        print_plain(f"No demo data: {_MISSING}", err)
        return
    if settings.gateway.auth_mode != "dev":
        print_plain("No demo data: the service requires a login. `floecat demo --token` loads it.", err)
        return
    from floecat_rest.demo_data import is_wanted, load

    warehouse, properties = settings.gateway.default_prefix, _storage_properties(settings)

    def step(name: str) -> None:
        check()
        tell(f"Loading demo data: {name}")

    tell("Loading demo data")
    try:
        if is_wanted(url, warehouse, properties):
            load(url, warehouse, step, properties)
            print_done("Demo data")
    except UnavailableError as error:
        # The catalog works without it.
        print_plain(f"No demo data: {error.message}", err)


def _storage_properties(settings: Settings) -> dict[str, str]:
    """The properties that PyIceberg needs to write where the service writes."""
    aws, gcs, adls = settings.storage.aws, settings.storage.gcs, settings.storage.adls
    given = {
        "s3.endpoint": aws.s3.endpoint,
        "s3.region": aws.region,
        "s3.access-key-id": aws.s3.access_key_id,
        "s3.secret-access-key": aws.s3.secret_access_key,
        "s3.session-token": aws.s3.session_token,
        "gcs.oauth2.token": gcs.token,
        # pyarrow takes no token without it
        "gcs.oauth2.token-expires-at": gcs.token and _FAR_FUTURE_MS,
        "adls.account-key": adls.account_key,
        "adls.sas-token": adls.sas_token,
        "adls.tenant-id": adls.tenant_id,
        "adls.client-id": adls.client_id,
        "adls.client-secret": adls.client_secret,
    }
    return {name: value for name, value in given.items() if value is not None}


def _pyiceberg_is_installed() -> bool:
    return all(importlib.util.find_spec(name) for name in ("pyiceberg", "pyarrow", "pyiceberg_core"))
