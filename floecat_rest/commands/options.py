"""Options that several commands share, the settings and the call on a catalog that they lead to."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Concatenate, ParamSpec, get_type_hints
from uuid import UUID

import typer

from floecat.errors import (
    BadRequestError,
    NoSuchNamespaceError,
    NoSuchTableError,
    NoSuchViewError,
    NoSuchWarehouseError,
)
from floecat.identifiers.namespace import TableIdentifier
from floecat.identifiers.written_names import parse_identifier, parse_namespace
from floecat.settings import Duration, Settings, load_settings
from floecat.settings.loading import CONFIG_VARIABLE
from floecat.suggestions import did_you_mean, nearest
from floecat_rest.commands.lookups import OPERATOR, hint, of_catalog

if TYPE_CHECKING:
    from floecat.auth.actors import Actor
    from floecat.entries.calls import Call
    from floecat.runtime import Kernel

__all__ = [
    "AccountOption",
    "CatalogOption",
    "ConfigOption",
    "DagsterPortOption",
    "DataDirOption",
    "HostOption",
    "JsonOption",
    "NamespaceOption",
    "OptionalTableArgument",
    "RestPortOption",
    "SnapshotOption",
    "TableArgument",
    "WideOption",
    "WorkersOption",
    "account_of",
    "duration_ms",
    "environment_of",
    "on_account",
    "on_catalog",
    "one_of",
    "open_call",
    "operator",
    "settings_from",
]

ConfigOption = Annotated[
    Path | None,
    typer.Option(
        "--config", help="Settings file. Default: $FLOECAT_CONFIG, else floecat.toml if it is there."
    ),
]
DataDirOption = Annotated[
    Path | None, typer.Option("--data-dir", help="Folder of everything kept on local disk. Default: .floecat")
]
HostOption = Annotated[str | None, typer.Option("--host", help="Address to listen on. Default: 127.0.0.1")]
RestPortOption = Annotated[
    int | None, typer.Option("--rest-port", help="Port of the REST service. Default: 9200")
]
DagsterPortOption = Annotated[int, typer.Option("--dagster-port", help="Port of the Dagster UI.")]
WorkersOption = Annotated[int | None, typer.Option("--workers", help="REST worker processes. Default: 1")]
AccountOption = Annotated[
    str | None,
    typer.Option(
        "--account",
        help="Account of the catalogs: its name, or its id as in the tokens of its users. Default: that of"
        " auth-mode=dev.",
    ),
]
CatalogOption = Annotated[
    str | None, typer.Option("--catalog", help="Name of the catalog. Default: the default catalog.")
]
TableArgument = Annotated[
    TableIdentifier,
    typer.Argument(
        parser=parse_identifier,
        help="NAMESPACE.NAME of the table, or CATALOG.NAMESPACE.NAME; nested namespaces are OUTER.INNER. A"
        " level with a dot stands in double quotes: 'lake.\"sales.db\".orders'.",
        metavar="NAME",
    ),
]
OptionalTableArgument = Annotated[
    TableIdentifier | None,
    typer.Argument(
        parser=parse_identifier,
        help="NAMESPACE.NAME of a table, or CATALOG.NAMESPACE.NAME.",
        metavar="NAME",
        show_default=False,
    ),
]
NamespaceOption = Annotated[
    Any,  # a `Namespace` or None, which typer would take for several values
    typer.Option(
        "--namespace",
        parser=parse_namespace,
        metavar="OUTER.INNER",
        help="Only this namespace, and those below it.",
    ),
]
WideOption = Annotated[
    bool,
    typer.Option("--wide", help="All columns, and nothing cut: lines may be longer than 100 characters."),
]
SnapshotOption = Annotated[
    str | None, typer.Option("--snapshot", help="Id, or name of a branch or tag. Default: the current one.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="One JSON object a line, for programs.")]


P = ParamSpec("P")


def duration_ms(option: str, text: str) -> int:
    """The duration that an option was given."""
    try:
        return Duration.parse(text).ms
    except ValueError:
        raise BadRequestError(
            f"Invalid {option}: {text!r}, expected an ISO-8601 duration such as PT10M or P7D"
        ) from None


def one_of(option: str, *words: str) -> Callable[[str], str]:
    """A parser of an option that takes one of some words, in any case."""

    def parse(text: str) -> str:
        if text.lower() not in words:
            near = did_you_mean(nearest(text, words))
            raise BadRequestError(f"Invalid {option}: {text!r}, expected one of {', '.join(words)}{near}")
        return text.lower()

    return parse


def settings_from(
    config: Path | None = None,
    *,
    data_dir: Path | None = None,
    host: str | None = None,
    rest_port: int | None = None,
    workers: int | None = None,
) -> Settings:
    """The settings of a command: file, environment, and the options that were given.

    Raises:
        SettingsError: a setting is unknown or has a value of the wrong kind.
    """
    given: Mapping[str, object] = {
        "floecat.data-dir": None if data_dir is None else str(data_dir),
        "floecat.gateway.host": host,
        "floecat.gateway.rest-port": rest_port,
        "floecat.gateway.workers": workers,
    }
    return load_settings(
        config=config, overrides={key: value for key, value in given.items() if value is not None}
    )


def environment_of(settings: Settings, config: Path | None, **more: str) -> dict[str, str]:
    """The environment of child processes, also of those that Dagster starts.

    Args:
        settings: of this command.
        config: the option `--config` of this command.
        more: variables that stand for further options.
    """
    given = {"PYTHONUNBUFFERED": "1", "FLOECAT_DATA_DIR": str(settings.data_path), **more}
    if config is not None:
        given[CONFIG_VARIABLE] = str(config.absolute())
    home = os.environ.get("DAGSTER_HOME") or settings.data_path / "dagster"
    return {**os.environ, "DAGSTER_HOME": str(Path(home).absolute()), **given}


def account_of(kernel: Kernel, account: str | None) -> UUID:
    """The id of the account that an option names; one that is given as an id need not be there yet.

    Raises:
        NotFoundError: there is no account of this name.
    """
    if account is None:
        return kernel.settings.gateway.default_account_id
    try:
        return UUID(account)
    except ValueError:
        return kernel.access.accounts.describe(account).id


@contextmanager
def open_call(settings: Settings, catalog: str | None, account: str | None) -> Iterator[tuple[Kernel, Call]]:
    """An open kernel, and a call on a catalog, for a block of code.

    Raises:
        NoSuchWarehouseError: there is no such catalog.
        NotFoundError: there is no such account.
    """
    from floecat.runtime import kernel

    catalog = catalog or settings.gateway.default_prefix
    with kernel(settings) as opened:
        account_id = account_of(opened, account)
        try:
            call = opened.catalog.calls.open_as_operator(OPERATOR, account_id, catalog)
        except NoSuchWarehouseError as error:
            near = nearest(catalog, (each.name for each in opened.catalog.catalogs.list(account_id)))
            raise NoSuchWarehouseError(error.message + did_you_mean(near)) from None
        yield opened, call


def on_catalog(command: Callable[Concatenate[Kernel, Call, P], None]) -> Callable[..., None]:
    """Makes a command work on a catalog: with an open kernel, a call, and the options that name it."""

    def run(
        catalog: str | None, account: str | None, config: Path | None, data_dir: Path | None, **given: Any
    ) -> None:
        with open_call(settings_from(config, data_dir=data_dir), catalog, account) as (kernel, opened):
            call = opened
            for option, value in given.items():
                if isinstance(value, tuple):  # the name of a table, a view or a namespace
                    call, given[option] = of_catalog(kernel, call, value, any_catalog=catalog is None)
            try:
                command(kernel, call, **given)  # type: ignore[call-arg]
            except (NoSuchNamespaceError, NoSuchTableError, NoSuchViewError) as error:
                names = [value for value in given.values() if isinstance(value, tuple)]
                hints = "".join(hint(kernel, call, name) for name in names)
                raise type(error)(error.message + hints) from None

    return _with_options(command, run, {"catalog": CatalogOption, "account": AccountOption})


def on_account(command: Callable[Concatenate[Kernel, Actor, P], None]) -> Callable[..., None]:
    """Makes a command work on an account, which need not have a catalog: with an open kernel and who acts."""

    def run(account: str | None, config: Path | None, data_dir: Path | None, **given: Any) -> None:
        from floecat.runtime import kernel

        with kernel(settings_from(config, data_dir=data_dir)) as opened:
            # one that is mistyped is not made
            known = opened.access.accounts.describe(str(account_of(opened, account)))
            command(opened, operator(known.id), **given)  # type: ignore[call-arg]

    return _with_options(command, run, {"account": AccountOption})


def operator(account_id: UUID) -> Actor:
    """Who uses commands: works on the store directly, and may do everything."""
    from floecat.auth.actors import Actor
    from floecat.auth.authorizer import AllowAll
    from floecat.auth.principals import Principal

    return Actor(Principal(OPERATOR, account_id), AllowAll())


def _with_options(
    command: Callable[..., None], run: Callable[..., None], options: Mapping[str, Any]
) -> Callable[..., None]:
    """Gives what runs a command the parameters of the command but its first two, and these options."""
    hints = get_type_hints(command, localns={"Kernel": Any, "Call": Any, "Actor": Any}, include_extras=True)
    options = {**options, "config": ConfigOption, "data_dir": DataDirOption}
    _, _, *own = inspect.signature(command).parameters.values()
    shared = (
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=option)
        for name, option in options.items()
    )
    parameters = [parameter.replace(annotation=hints[parameter.name]) for parameter in own]
    run.__signature__ = inspect.Signature([*parameters, *shared])  # type: ignore[attr-defined]
    run.__annotations__ = {each.name: each.annotation for each in parameters} | options
    run.__name__, run.__doc__ = command.__name__, command.__doc__
    return run
