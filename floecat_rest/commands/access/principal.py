"""`floecat principal`: those who came with a token, or were named."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from floecat_rest.commands.access.access import PrincipalArgument, print_grants
from floecat_rest.commands.console import print_json, print_plain, print_rows, written_time
from floecat_rest.commands.options import JsonOption, on_account

if TYPE_CHECKING:
    from floecat.auth.actors import Actor
    from floecat.runtime import Kernel

__all__ = ["app"]

app = typer.Typer(name="principal", help="Principals of an account.", no_args_is_help=True)


@app.command(name="list")
@on_account
def list_principals(
    kernel: Kernel,
    actor: Actor,
    *,
    limit: Annotated[int, typer.Option("--limit", min=1, help="Most principals.")] = 1000,
    as_json: JsonOption = False,
) -> None:
    """List the principals, by name."""
    found = kernel.access.principals.page(actor, None, limit).items
    if as_json:
        print_json(found)
    else:
        print_rows(
            ("principal", "state", "since"),
            (
                (each.name, "disabled" if each.disabled else "enabled", written_time(each.created_at_ms))
                for each in found
            ),
        )


@app.command()
@on_account
def show(kernel: Kernel, actor: Actor, principal: PrincipalArgument, *, as_json: JsonOption = False) -> None:
    """Show a principal: its roles, and what is granted to it. What it owns is not listed."""
    found = kernel.access.principals.get(actor, principal)
    if as_json:
        print_json([found])
        return
    print_plain(f"state: {'disabled' if found.disabled else 'enabled'}")
    print_plain(f"roles: {', '.join(found.roles) or '-'}")
    print_grants(kernel, actor, f"principal:{principal}")


@app.command()
@on_account
def disable(kernel: Kernel, actor: Actor, principal: PrincipalArgument) -> None:
    """Disable a principal, also an operator: it may do nothing from its next request on."""
    kernel.access.principals.set_disabled(actor, principal, disabled=True)
    print_plain(f"Disabled principal {principal}")


@app.command()
@on_account
def enable(kernel: Kernel, actor: Actor, principal: PrincipalArgument) -> None:
    """Enable a principal that was disabled, with the rights that it had."""
    kernel.access.principals.set_disabled(actor, principal, disabled=False)
    print_plain(f"Enabled principal {principal}")


@app.command()
@on_account
def delete(kernel: Kernel, actor: Actor, principal: PrincipalArgument) -> None:
    """Delete a principal with its grants. Its token stays valid: disable it to keep it out."""
    kernel.access.principals.delete(actor, principal)
    print_plain(f"Deleted principal {principal}")
