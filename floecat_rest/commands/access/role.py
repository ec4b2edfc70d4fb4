"""`floecat role`: roles and their members."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from floecat_rest.commands.access.access import GranteeArgument, print_grants
from floecat_rest.commands.console import print_json, print_plain, print_rows
from floecat_rest.commands.options import JsonOption, on_account
from floecat_rest.http.paged import every

if TYPE_CHECKING:
    from floecat.auth.actors import Actor
    from floecat.runtime import Kernel

__all__ = ["app"]

app = typer.Typer(name="role", help="Roles of an account, and their members.", no_args_is_help=True)

RoleArgument = Annotated[str, typer.Argument(metavar="ROLE", help="Its name.")]


@app.command()
@on_account
def create(kernel: Kernel, actor: Actor, role: RoleArgument) -> None:
    """Create a role without members and grants."""
    kernel.access.roles.create(actor, role)
    print_plain(f"Created role {role}")


@app.command()
@on_account
def create_built_in(kernel: Kernel, actor: Actor) -> None:
    """Create the roles operator, catalog-admin, engineer, analyst and worker; those that are there stay."""
    for line in kernel.access.built_in_roles.create(actor) or ["All are there"]:
        print_plain(line)


@app.command()
@on_account
def delete(kernel: Kernel, actor: Actor, role: RoleArgument) -> None:
    """Delete a role with its members and grants."""
    kernel.access.roles.delete(actor, role)
    print_plain(f"Deleted role {role}")


@app.command()
@on_account
def add(kernel: Kernel, actor: Actor, role: RoleArgument, member: GranteeArgument) -> None:
    """Make a principal, another role or a group of tokens a member of a role."""
    added = kernel.access.roles.change_members(actor, role, add=[member])
    print_plain(f"{member} is a member of role {role}{'' if added else ' already'}")


@app.command()
@on_account
def remove(kernel: Kernel, actor: Actor, role: RoleArgument, member: GranteeArgument) -> None:
    """Take a member out of a role. It holds from the next request on."""
    removed = kernel.access.roles.change_members(actor, role, remove=[member])
    print_plain(f"{member} is no member of role {role}{' any more' if removed else ''}")


@app.command(name="list")
@on_account
def list_roles(kernel: Kernel, actor: Actor, *, as_json: JsonOption = False) -> None:
    """List the roles with their members."""
    found = kernel.access.roles.list(actor)
    if as_json:
        print_json(found)
    else:
        print_rows(("role", "members"), ((each.name, ", ".join(each.members) or "-") for each in found))


@app.command()
@on_account
def show(kernel: Kernel, actor: Actor, role: RoleArgument, *, as_json: JsonOption = False) -> None:
    """Show a role: its owner, its members, and what is granted to it."""
    found = kernel.access.roles.get(actor, role)
    members = tuple(every(lambda token: kernel.access.roles.members(actor, role, token, 1000)))
    if as_json:
        print_json([msgspec.structs.replace(found, members=members)])
        return
    print_plain(f"owner: {found.owner or '-'}")
    print_plain(f"members: {', '.join(members) or '-'}")
    print_grants(kernel, actor, f"role:{role}")
