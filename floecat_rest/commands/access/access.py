"""`floecat access`: grants and owners; who may do what, and why."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from floecat.auth.authorizer import Privilege, Securable
from floecat.auth.principals import Principal
from floecat.errors import BadRequestError
from floecat.identifiers.written_names import parse_identifier, parse_namespace
from floecat_rest.commands.console import print_json, print_plain, print_rows, written_time
from floecat_rest.commands.lookups import separator_of, shown_securable, split_levels
from floecat_rest.commands.options import CatalogOption, JsonOption, on_account, on_catalog
from floecat_rest.http.paged import every

if TYPE_CHECKING:
    from uuid import UUID

    from floecat.auth.actors import Actor
    from floecat.entries.calls import Call
    from floecat.runtime import Kernel

__all__ = ["GranteeArgument", "PrincipalArgument", "app", "print_grants"]

app = typer.Typer(
    name="access", help="Access: grants and owners; who may do what, and why.", no_args_is_help=True
)

GranteeArgument = Annotated[
    str, typer.Argument(metavar="GRANTEE", help="principal:NAME, role:NAME, or group:NAME of tokens.")
]
PrincipalArgument = Annotated[str, typer.Argument(metavar="PRINCIPAL", help="Its name.")]
SecurableArgument = Annotated[
    str,
    typer.Argument(
        metavar="ON",
        help="account, catalog, namespace:OUTER.INNER, table:NAMESPACE.NAME or view:NAMESPACE.NAME; it holds"
        " for all that is in it.",
    ),
]
FileArgument = Annotated[
    Path, typer.Argument(metavar="FILE", help="A file as `floecat access export` prints.")
]
PrivilegesArgument = Annotated[
    str, typer.Argument(metavar="PRIVILEGES", help="Joined by commas, as read_table,list_schema; or all.")
]


@app.command()
@on_account
def grant(
    kernel: Kernel,
    actor: Actor,
    privileges: PrivilegesArgument,
    on: SecurableArgument,
    to: GranteeArgument,
    *,
    catalog: CatalogOption = None,
) -> None:
    """Grant privileges on a thing and all that is in it."""
    securable = _securable(kernel, actor.account_id, catalog, on)
    added = kernel.access.access.grant(actor, _privileges(privileges), securable, to)
    told = shown_securable(kernel, actor.account_id, securable)
    print_plain(f"Granted {', '.join(added)} on {told} to {to}" if added else "All was granted before")


@app.command()
@on_account
def revoke(
    kernel: Kernel,
    actor: Actor,
    privileges: PrivilegesArgument,
    on: SecurableArgument,
    of: GranteeArgument,
    *,
    catalog: CatalogOption = None,
) -> None:
    """Take back privileges that were granted on a thing itself. It holds from the next request on."""
    securable = _securable(kernel, actor.account_id, catalog, on)
    removed = kernel.access.access.revoke(actor, _privileges(privileges), securable, of)
    told = shown_securable(kernel, actor.account_id, securable)
    print_plain(
        f"Revoked {', '.join(removed)} on {told} of {of}"
        if removed
        else f"Nothing of it was granted on {told} itself: see floecat access who {on}"
    )


@app.command()
@on_account
def owner(
    kernel: Kernel, actor: Actor, on: SecurableArgument, to: GranteeArgument, *, catalog: CatalogOption = None
) -> None:
    """Give a catalog, namespace, table or view to another owner, who may do everything with it."""
    securable = _securable(kernel, actor.account_id, catalog, on)
    kernel.access.access.set_owner(actor, securable, to)
    print_plain(f"{to} owns {shown_securable(kernel, actor.account_id, securable)}")


@app.command()
@on_catalog
def protect(kernel: Kernel, call: Call, on: SecurableArgument) -> None:
    """Protect a catalog, namespace, table or view: nobody can remove it until this is taken off."""
    securable = _securable(kernel, call.catalog.account_id, call.catalog.name, on)
    changed = kernel.catalog.marks.protect(call, securable, protected=True)
    told = shown_securable(kernel, call.catalog.account_id, securable)
    print_plain(f"{'Protected' if changed else 'Protected before'}: {told}")


@app.command()
@on_catalog
def unprotect(kernel: Kernel, call: Call, on: SecurableArgument) -> None:
    """Take the protection from removal off a catalog, namespace, table or view."""
    securable = _securable(kernel, call.catalog.account_id, call.catalog.name, on)
    changed = kernel.catalog.marks.protect(call, securable, protected=False)
    told = shown_securable(kernel, call.catalog.account_id, securable)
    print_plain(f"{'Not protected any more' if changed else 'Was not protected'}: {told}")


@app.command()
@on_account
def explain(
    kernel: Kernel,
    actor: Actor,
    principal: PrincipalArgument,
    privilege: Annotated[str, typer.Argument(metavar="PRIVILEGE", help="As read_table.")],
    on: SecurableArgument,
    *,
    group: Annotated[
        list[str] | None, typer.Option("--group", help="A group that its token would name; repeatable.")
    ] = None,
    catalog: CatalogOption = None,
    as_json: JsonOption = False,
) -> None:
    """Explain why a principal may do something, or what it lacks. Exits with 1 if it may not."""
    who = Principal(principal, actor.account_id, groups=tuple(group or ()))
    (wanted,) = _privileges(privilege)
    found = kernel.access.questions.explain(
        actor, who, wanted, _securable(kernel, actor.account_id, catalog, on)
    )
    if as_json:
        print_json([found])
    else:
        for reason in found.reasons:
            print_plain(f"{'allowed' if found.allowed else 'not allowed'}: {reason}")
    if not found.allowed:
        raise typer.Exit(1)


@app.command()
@on_account
def who(
    kernel: Kernel,
    actor: Actor,
    on: SecurableArgument,
    *,
    privilege: Annotated[str | None, typer.Option("--privilege", help="Only who has this one.")] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, help="Most of them.")] = 1000,
    catalog: CatalogOption = None,
    as_json: JsonOption = False,
) -> None:
    """List who may do something with a thing, and through what."""
    wanted = _privileges(privilege)[0] if privilege else None
    found = kernel.access.questions.who(
        actor, _securable(kernel, actor.account_id, catalog, on), wanted, limit
    )
    if as_json:
        print_json(found)
    else:
        print_rows(("who", "privilege", "on"), ((each.grantee, each.privilege, each.on) for each in found))


@app.command()
@on_account
def history(
    kernel: Kernel,
    actor: Actor,
    *,
    limit: Annotated[int, typer.Option("--limit", min=1, help="Most changes.")] = 100,
    refusals: Annotated[
        bool,
        typer.Option(
            "--refusals", help="What was refused instead, with floecat.auth.record-refusals; after seconds."
        ),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """List the last changes of access, the newest first, and who made them."""
    if refusals:
        refused = kernel.access.refusals.newest(actor, limit)
        if as_json:
            print_json(refused)
        else:
            print_rows(
                ("at", "principal", "privilege", "on", "times"),
                (
                    (
                        written_time(each.refused_at_ms),
                        each.principal,
                        each.privilege,
                        each.securable,
                        str(each.times),
                    )
                    for each in refused
                ),
            )
        return
    found = kernel.access.questions.history(actor, None, limit).items
    if as_json:
        print_json(found)
    else:
        print_rows(
            ("at", "by", "change"),
            ((written_time(each.changed_at_ms), each.principal, each.change) for each in found),
        )


@app.command()
@on_account
def export(
    kernel: Kernel,
    actor: Actor,
    *,
    tables: Annotated[bool, typer.Option("--tables", help="Owners of tables and views, too.")] = False,
) -> None:
    """Print roles, grants, owners and catalogs of the account as one YAML file."""
    from floecat_rest.commands.access.access_file import write_access_file

    print_plain(write_access_file(kernel.catalog.access.export(actor, with_tables=tables)).rstrip())


@app.command()
@on_account
def diff(kernel: Kernel, actor: Actor, file: FileArgument) -> None:
    """Show what `apply` would change. Exits with 1 if there is something."""
    if _apply(kernel, actor, file, dry_run=True):
        raise typer.Exit(1)


@app.command()
@on_account
def apply(
    kernel: Kernel,
    actor: Actor,
    file: FileArgument,
    *,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be changed, only.")] = False,
) -> None:
    """Make the account as the file says, all or nothing: roles and grants that are not in it go."""
    _apply(kernel, actor, file, dry_run=dry_run)


def print_grants(kernel: Kernel, actor: Actor, grantee: str) -> None:
    """A table of everything that is granted to a grantee."""
    found = every(lambda token: kernel.access.questions.grants_to(actor, grantee, token, 1000))
    print_rows(
        ("privilege", "on", "granted by", "at"),
        (
            (
                each.privilege,
                shown_securable(kernel, actor.account_id, each.on),
                each.granted_by,
                written_time(each.granted_at_ms),
            )
            for each in found
        ),
    )


def _apply(kernel: Kernel, actor: Actor, file: Path, *, dry_run: bool) -> Sequence[str]:
    from floecat_rest.commands.access.access_file import read_access_file

    most_bytes = kernel.settings.limits.access_file_bytes
    try:
        with file.open("rb") as opened:
            data = opened.read(most_bytes + 1)
    except OSError as error:
        raise BadRequestError(f"{file} cannot be read: {error.strerror}") from None
    changes = kernel.catalog.access.apply(actor, read_access_file(data, most_bytes), dry_run=dry_run)
    for line in changes or ["Nothing to do"]:
        print_plain(line)
    return changes


def _privileges(text: str) -> Sequence[Privilege]:
    if text == "all":
        return list(Privilege)
    found = []
    for name in text.split(","):
        try:
            found.append(Privilege(name.strip()))
        except ValueError:
            known = ", ".join(Privilege)
            raise BadRequestError(f"There is no privilege {name.strip()!r}. There are: {known}") from None
    return found


def _securable(kernel: Kernel, account_id: UUID, catalog: str | None, text: str) -> Securable:
    catalog = catalog or kernel.settings.gateway.default_prefix
    kind, _, name = text.partition(":")
    if text == "account":
        return Securable("account", "")
    if text == "catalog":
        return Securable("catalog", catalog)
    separator = separator_of(kernel, account_id, catalog)
    if kind == "namespace":
        return Securable("namespace", catalog, split_levels(parse_namespace(name), separator))
    if kind in ("table", "view"):
        identifier = split_levels(parse_identifier(name), separator)
        return Securable("table" if kind == "table" else "view", catalog, *identifier)
    raise BadRequestError(
        f"Invalid name: {text!r}, expected account, catalog, namespace:OUTER.INNER, table:NAMESPACE.NAME"
        " or view:NAMESPACE.NAME"
    )
