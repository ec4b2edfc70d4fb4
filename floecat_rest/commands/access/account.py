"""`floecat account`: accounts, each with catalogs, principals and roles of its own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated
from uuid import UUID

import typer

from floecat_rest.commands.console import print_json, print_plain, print_rows, written_time
from floecat_rest.commands.options import ConfigOption, DataDirOption, JsonOption, settings_from

if TYPE_CHECKING:
    from pathlib import Path

    from floecat.access.account_service import AccountInfo, AccountService
    from floecat_rest.management.catalog_wire import AccountResponse

__all__ = ["app"]

app = typer.Typer(
    name="account",
    help="Accounts, each with catalogs, principals and roles of its own.",
    no_args_is_help=True,
)

_PAGE = 1000

NameArgument = Annotated[str, typer.Argument(metavar="ACCOUNT", help="Its name or id.")]


@app.command()
def create(
    name: Annotated[str, typer.Argument(help="Name: letters, digits, '_', '-' and '.'.")],
    account_id: Annotated[
        UUID | None, typer.Option("--id", help="Id, which tokens name. Default: a new one.")
    ] = None,
    as_json: JsonOption = False,
    config: ConfigOption = None,
    data_dir: DataDirOption = None,
) -> None:
    """Create an account."""
    with _accounts(config, data_dir) as service:
        made = service.create(name, account_id)
    if as_json:
        print_json([_response(made)])
    else:
        print_plain(f"Created account {made.name}: tokens name it by {made.id}")


@app.command(name="list")
def list_accounts(
    *, as_json: JsonOption = False, config: ConfigOption = None, data_dir: DataDirOption = None
) -> None:
    """List the accounts, by name."""
    with _accounts(config, data_dir) as service:
        found, token = service.page(None, _PAGE)
        rows = list(found)
        while token is not None:
            found, token = service.page(token, _PAGE)
            rows += found
    if as_json:
        print_json(map(_response, rows))
    else:
        print_rows(
            ("account", "id", "created", "state"),
            (
                (each.name, str(each.id), written_time(each.created_at_ms), _state(each.disabled))
                for each in rows
            ),
        )


@app.command()
def show(
    name: NameArgument,
    as_json: JsonOption = False,
    config: ConfigOption = None,
    data_dir: DataDirOption = None,
) -> None:
    """Show an account, and how much is in it."""
    with _accounts(config, data_dir) as service:
        found = service.describe(name)
    if as_json:
        from floecat_rest.management.catalog_wire import DescribedAccount

        print_json([DescribedAccount.of(found)])
        return
    rows = [("name", found.name), ("id", str(found.id)), ("state", _state(found.disabled))]
    rows.append(("created", written_time(found.created_at_ms)))
    print_rows(
        ("property", "value"), [*rows, *((what, str(count)) for what, count in found.contents.items())]
    )


@app.command()
def disable(name: NameArgument, config: ConfigOption = None, data_dir: DataDirOption = None) -> None:
    """Disable an account: nobody may do anything in it from the next request on."""
    with _accounts(config, data_dir) as service:
        print_plain(f"Disabled account {service.set_disabled(name, disabled=True).name}")


@app.command()
def enable(name: NameArgument, config: ConfigOption = None, data_dir: DataDirOption = None) -> None:
    """Enable an account that was disabled."""
    with _accounts(config, data_dir) as service:
        print_plain(f"Enabled account {service.set_disabled(name, disabled=False).name}")


@app.command()
def delete(name: NameArgument, config: ConfigOption = None, data_dir: DataDirOption = None) -> None:
    """Delete an account that has no catalogs, principals, roles and grants."""
    with _accounts(config, data_dir) as service:
        service.delete(name)
    print_plain(f"Deleted account {name}")


@contextmanager
def _accounts(config: Path | None, data_dir: Path | None) -> Iterator[AccountService]:
    from floecat.runtime import kernel

    with kernel(settings_from(config, data_dir=data_dir)) as opened:
        yield opened.access.accounts


def _response(account: AccountInfo) -> AccountResponse:
    from floecat_rest.management.catalog_wire import AccountResponse

    return AccountResponse.of(account)


def _state(disabled: bool) -> str:
    return "disabled" if disabled else "enabled"
