"""`floecat role`: roles and their members."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from floecat_rest.commands.access.access import GranteeArgument
from floecat_rest.commands.console import print_json, print_plain, print_rows
from floecat_rest.commands.options import JsonOption, on_catalog

if TYPE_CHECKING:
    from floecat.entries.calls import Call
    from floecat.runtime import Kernel

__all__ = ["app"]

app = typer.Typer(name="role", help="Roles of an account, and their members.", no_args_is_help=True)

RoleArgument = Annotated[str, typer.Argument(metavar="ROLE", help="Its name.")]


@app.command()
@on_catalog
def create(kernel: Kernel, call: Call, role: RoleArgument) -> None:
    """Create a role without members and grants."""
    kernel.access.access.create_role(call.catalog.account_id, role, call.principal.name)
    print_plain(f"Created role {role}")


@app.command()
@on_catalog
def delete(kernel: Kernel, call: Call, role: RoleArgument) -> None:
    """Delete a role with its members and grants."""
    kernel.access.access.delete_role(call.catalog.account_id, role, call.principal.name)
    print_plain(f"Deleted role {role}")


@app.command()
@on_catalog
def add(kernel: Kernel, call: Call, role: RoleArgument, member: GranteeArgument) -> None:
    """Make a principal, another role or a group of tokens a member of a role."""
    added = kernel.access.access.add_member(call.catalog.account_id, role, member, call.principal.name)
    print_plain(f"{member} is a member of role {role}{'' if added else ' already'}")


@app.command()
@on_catalog
def remove(kernel: Kernel, call: Call, role: RoleArgument, member: GranteeArgument) -> None:
    """Take a member out of a role. It holds from the next request on."""
    removed = kernel.access.access.remove_member(call.catalog.account_id, role, member, call.principal.name)
    print_plain(f"{member} is no member of role {role}{' any more' if removed else ''}")


@app.command(name="list")
@on_catalog
def list_roles(kernel: Kernel, call: Call, *, as_json: JsonOption = False) -> None:
    """List the roles with their members."""
    found = kernel.access.access.roles(call.catalog.account_id)
    if as_json:
        print_json(found)
    else:
        print_rows(("role", "members"), ((each.name, ", ".join(each.members) or "-") for each in found))
