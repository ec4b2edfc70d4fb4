"""`floecat authority`: storage authorities, which make keys for clients."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import msgspec
import typer

from floecat.errors import BadRequestError
from floecat_rest.commands.console import print_done, print_error, print_json, print_plain, print_rows
from floecat_rest.commands.options import JsonOption, WideOption, on_account

if TYPE_CHECKING:
    from floecat.auth.actors import Actor
    from floecat.credentials.authorities import KeyMethod, StorageAuthority
    from floecat.runtime import Kernel
    from floecat_rest.management.storage.authority_wire import AuthorityResponse

__all__ = ["app"]

app = typer.Typer(
    name="authority",
    help="Storage authorities: they make keys for clients, each for one table and an hour.",
    no_args_is_help=True,
)

NameArgument = Annotated[str, typer.Argument(metavar="AUTHORITY", help="Its name.")]
PrefixArgument = Annotated[
    str, typer.Argument(metavar="PREFIX", help="Location below which it makes keys, as s3://lake/tables.")
]
MethodOption = Annotated[
    list[str] | None,
    typer.Option(
        "--option",
        help="KEY=VALUE, repeatable; KEY= takes the default. All know keys-of=own|service|web-identity and"
        " endpoint=URL. S3 knows access-key-id, role-arn, external-id, duration-s, region, sts-endpoint,"
        " path-style-access=true, tells-endpoint=false, sse-type=s3|kms, sse-key, names-principals=true."
        " Google knows project-id, sts-endpoint. Azure knows tenant-id, client-id, duration-s,"
        " hierarchical=false, login-endpoint.",
    ),
]
SecretOption = Annotated[
    Path | None,
    typer.Option(
        "--secret-file",
        help="File with its secret, or - for standard input: the secret access key, the JSON of a service"
        " account, the key of an Azure account, or the secret of a service principal. Without, a terminal"
        " asks.",
    ),
]


@app.command()
@on_account
def create(
    kernel: Kernel,
    actor: Actor,
    name: NameArgument,
    prefix: PrefixArgument,
    *,
    option: MethodOption = None,
    secret_file: SecretOption = None,
    disabled: Annotated[bool, typer.Option("--disabled", help="It makes no keys yet.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Create an authority. `floecat authority check` tries it."""
    from floecat.credentials.authority_service import NewAuthority

    method = _method(_kind(prefix), {}, option)
    secrets = _secrets(method, secret_file, asks=True)
    wanted = NewAuthority(name, prefix, method, secrets, enabled=not disabled)
    made = kernel.credentials.authorities.create(actor, wanted, anywhere=True)
    if as_json:
        print_json([_response(made)])
    else:
        print_plain(
            f"Created storage authority {made.name} for {made.prefix}; try it: floecat authority check {name}"
        )


@app.command(name="list")
@on_account
def list_authorities(
    kernel: Kernel, actor: Actor, *, wide: WideOption = False, as_json: JsonOption = False
) -> None:
    """List the authorities."""
    found = kernel.credentials.authorities.page(actor, limit=kernel.settings.limits.storage_authorities).items
    if as_json:
        print_json(map(_response, found))
        return
    rows = (
        (
            each.name,
            each.method.kind,
            "yes" if each.enabled else "no",
            each.method.keys_of,
            getattr(each.method, "role_arn", None) or "-",
            str(each.prefix),
        )
        for each in found
    )
    headings = ("name", "kind", "enabled", "keys of", "role", "prefix")
    print_rows(headings, rows, more=("keys of", "role"), wide=wide)


@app.command()
@on_account
def show(kernel: Kernel, actor: Actor, name: NameArgument, *, as_json: JsonOption = False) -> None:
    """Show an authority; its secret is shown as ***."""
    found = _response(kernel.credentials.authorities.get(actor, name))
    if as_json:
        print_json([found])
        return
    method = msgspec.to_builtins(found.method)
    shown = {"prefix": found.prefix, "enabled": found.enabled, **method, **found.secrets}
    for key, value in shown.items():
        if value is not None:
            print_plain(f"{key}: {str(value).lower() if isinstance(value, bool) else value}")


@app.command()
@on_account
def update(
    kernel: Kernel,
    actor: Actor,
    name: NameArgument,
    *,
    rename: Annotated[str | None, typer.Option("--rename", help="A new name.")] = None,
    prefix: Annotated[str | None, typer.Option("--prefix", help="A new prefix.")] = None,
    option: MethodOption = None,
    secret_file: SecretOption = None,
    enable: Annotated[
        bool | None, typer.Option("--enable/--disable", help="Whether it makes keys.", show_default=False)
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Change an authority; what is not given stays. It holds from the next request on, in every process."""
    from floecat.credentials.authority_service import AuthorityUpdate

    found = kernel.credentials.authorities.get(actor, name)
    method = _method(found.method.kind, msgspec.to_builtins(found.method), option)
    secrets = _secrets(method, secret_file, asks=False)
    wanted = AuthorityUpdate(rename, prefix, method, secrets, enable)
    changed = kernel.credentials.authorities.update(actor, name, wanted, anywhere=True)
    if as_json:
        print_json([_response(changed)])
    else:
        print_plain(f"Changed storage authority {changed.name}; its prefix is {changed.prefix}")


@app.command()
@on_account
def delete(kernel: Kernel, actor: Actor, name: NameArgument) -> None:
    """Delete an authority. Keys that it made open files until they lapse."""
    kernel.credentials.authorities.delete(actor, name)
    print_plain(f"Deleted storage authority {name}")


@app.command()
@on_account
def check(kernel: Kernel, actor: Actor, name: NameArgument, *, as_json: JsonOption = False) -> None:
    """Make keys, and try what they open: files below the prefix, and nothing beside.

    Exits with 1 if a step went wrong, and says what is likely to mend it. Files that it writes are deleted.
    """
    problems = 0
    for step in kernel.credentials.trial.run(kernel.credentials.authorities.get(actor, name)):
        problems += step.problem is not None
        if as_json:
            print_json([step._asdict()])
        elif step.problem is None:
            print_done(step.what)
        else:
            print_error(f"{step.what}: {step.problem}")
    if problems:
        raise typer.Exit(1)


def _kind(prefix: str) -> str:
    from floecat.credentials.authorities import AdlsMethod, GcsMethod, S3Method
    from floecat.fileio.locations import scheme_of

    scheme = scheme_of(prefix)
    for method in (S3Method, GcsMethod, AdlsMethod):
        if scheme == method.SCHEME:
            return str(method.__struct_config__.tag)
    raise BadRequestError(f"Invalid prefix: {prefix[:255]!r}, expected s3://, gs:// or abfss://")


def _method(kind: str, before: Mapping[str, Any], options: list[str] | None) -> KeyMethod:
    from floecat.credentials.authorities import KeyMethod

    values = {**before, "kind": kind}
    for text in options or ():
        key, equals, value = text.partition("=")
        if not equals:
            raise BadRequestError(f"Invalid --option: {text!r}, expected KEY=VALUE")
        values[key] = value
        if not value:
            del values[key]
    try:
        return cast("KeyMethod", msgspec.convert(values, KeyMethod, strict=False))
    except msgspec.ValidationError as error:
        raise BadRequestError(f"Invalid --option: {error}") from None


def _secrets(method: KeyMethod, file: Path | None, *, asks: bool) -> Mapping[str, str]:
    if method.secret is None:
        return {}
    if file is not None:
        try:
            text = sys.stdin.read() if str(file) == "-" else file.read_text("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise BadRequestError(f"The secret cannot be read from {file}: {error}") from None
        return {method.secret: text.strip()}
    if asks and sys.stdin.isatty():
        return {method.secret: typer.prompt(method.secret, hide_input=True, err=True).strip()}
    return {}


def _response(found: StorageAuthority) -> AuthorityResponse:
    from floecat_rest.management.storage.authority_wire import AuthorityResponse

    return AuthorityResponse.of(found)
