"""`floecat connector`: locations outside the catalog that are scanned for tables."""

from __future__ import annotations

import sys
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from floecat.errors import BadRequestError, FloecatError
from floecat.identifiers.written_names import parse_identifier, parse_namespace
from floecat_rest.commands.console import (
    err,
    print_done,
    print_error,
    print_json,
    print_plain,
    print_rows,
    working,
    written_time,
)
from floecat_rest.commands.lookups import shown, split_levels
from floecat_rest.commands.options import JsonOption, WideOption, duration_ms, on_catalog

if TYPE_CHECKING:
    from floecat.connectors.connector_info import ConnectorInfo, ScanProgress
    from floecat.connectors.scan_reports import ConnectorScanReport
    from floecat.entries.calls import Call
    from floecat.runtime import Kernel
    from floecat_rest.management.wire import ConnectorResponse

__all__ = ["app"]

app = typer.Typer(
    name="connector",
    help="Connectors: locations outside the catalog that are scanned for tables.",
    no_args_is_help=True,
)

NameArgument = Annotated[str, typer.Argument(help="Name of the connector.")]
OptionOption = Annotated[
    list[str] | None,
    typer.Option(
        "--option",
        help="KEY=VALUE, repeatable. Kinds delta and iceberg know namespaces=nested|flat, name=TABLE,"
        " max-depth=N, exclude=PATTERN,PATTERN. Kind iceberg-rest knows warehouse=NAME,"
        " namespaces=PATTERN,!PATTERN, tables=PATTERN,!PATTERN, header.NAME=VALUE. Kind unity knows"
        " catalog=NAME. Kind pyiceberg knows type=sql|glue|hive, uri=URI, ugi=NAME, glue.region=NAME,"
        " glue.id=ACCOUNT, glue.endpoint=URL.",
    ),
]
CredentialOption = Annotated[
    list[str] | None,
    typer.Option(
        "--credential",
        help="KEY=VALUE, repeatable: scheme=none|bearer|oauth2|token-exchange|cli|password|aws|"
        "aws-assume-role|aws-web-identity, and what that needs. Other users of the machine see what stands"
        " here: secrets go into --credential-file.",
    ),
]
CredentialFileOption = Annotated[
    Path | None,
    typer.Option(
        "--credential-file", help="File with lines KEY=VALUE, or - for standard input, beside --credential."
    ),
]
PolicyOption = Annotated[
    list[str] | None,
    typer.Option(
        "--policy",
        help="KEY=VALUE, repeatable: mode=metadata-only|metadata-and-capture|capture-only,"
        " snapshots=current|latest-N|all (those that are captured), full=true (reads everything again),"
        " max-parallel=N, not-before=TIME, namespaces=PATTERN,!PATTERN, tables=PATTERN,!PATTERN.",
    ),
]


@app.command()
@on_catalog
def create(
    kernel: Kernel,
    call: Call,
    name: NameArgument,
    location: Annotated[
        str,
        typer.Argument(
            help="What to scan: a folder, the prefix of a bucket, a single table, or the URI of a catalog."
        ),
    ],
    *,
    kind: Annotated[str, typer.Option("--kind", help="What it looks for.")] = "delta",
    namespace: Annotated[
        str | None,
        typer.Option(
            "--namespace",
            help="Namespace for its tables, as OUTER.INNER; a level with a dot stands in double"
            " quotes. Default: its own name.",
        ),
    ] = None,
    option: OptionOption = None,
    credential: CredentialOption = None,
    credential_file: CredentialFileOption = None,
    policy: PolicyOption = None,
    interval: Annotated[
        str, typer.Option("--interval", help="Between two scheduled scans, as an ISO-8601 duration.")
    ] = "PT10M",
    disabled: Annotated[
        bool, typer.Option("--disabled", help="Leave it out of schedules; `scan` still works.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Create a connector. `floecat connector scan` scans it now, the pipeline does so by schedule."""
    interval_ms = duration_ms("--interval", interval)
    options = dict(_key_and_value("--option", text) for text in option or ())
    credentials = _credentials(credential, credential_file)
    from floecat.connectors.connector_info import NewConnector

    levels = split_levels(parse_namespace(namespace), call.catalog.schema_separator) if namespace else ()
    wanted = NewConnector(
        name, kind, location, levels, options, not disabled, interval_ms, credentials, _policy(policy) or {}
    )
    made = kernel.connectors.connectors.create(call, wanted)
    if as_json:
        print_json([_response(made)])
    else:
        print_plain(
            f"Created connector {made.name} for {made.location};"
            f" its tables go to namespace {shown(call, made.namespace)}"
        )
    try:
        kernel.connectors.connectors.check_root(call, name)
    except FloecatError as error:
        print_plain(f"A scan will find nothing: {error.message}", err)


@app.command(name="list")
@on_catalog
def list_connectors(
    kernel: Kernel,
    call: Call,
    *,
    wide: WideOption = False,
    as_json: JsonOption = False,
) -> None:
    """List the connectors of a catalog, and how their last scans went."""
    connectors = kernel.connectors.connectors.list(call)
    if as_json:
        print_json(map(_response, connectors))
        return
    rows = (
        (
            row.name,
            row.kind,
            row.location,
            shown(call, row.namespace),
            "yes" if row.enabled else "no",
            written_time(row.last_scan_at_ms),
            row.last_error or "",
        )
        for row in connectors
    )
    headings = ("name", "kind", "location", "namespace", "enabled", "last scan", "problem")
    print_rows(headings, rows, more=("kind", "namespace", "last scan"), wide=wide)


@app.command()
@on_catalog
def scan(
    kernel: Kernel,
    call: Call,
    name: NameArgument,
    *,
    as_json: JsonOption = False,
) -> None:
    """Scan now: register new tables and report the outcome of each. Exits with 1 if one failed."""
    with working(f"Scanning {name}", err) as show:
        report = kernel.connectors.scans.scan(
            call, name, lambda progress: show(f"Scanning {name}: {_counts(progress)}")
        )
    if as_json:
        from floecat_rest.management.wire import scan_response

        print_json([scan_response(report, "")])
    else:
        _print_report(call, report)
    if report.failed or report.error is not None:
        raise typer.Exit(1)


@app.command()
@on_catalog
def diff(
    kernel: Kernel,
    call: Call,
    name: NameArgument,
    *,
    wide: WideOption = False,
    as_json: JsonOption = False,
) -> None:
    """Compare with what a connector finds, and change nothing. Exits with 1 if anything differs."""
    with working(f"Comparing {name}", err) as show:
        found = kernel.connectors.scans.compare(
            call, name, lambda progress: show(f"Comparing {name}: {_counts(progress)}")
        )
    if as_json:
        from floecat_rest.management.wire import difference_response

        print_json(map(difference_response, found))
    elif found:
        rows = (
            (shown(call, each.identifier), each.reason, written_time(each.since_ms), each.address)
            for each in found
        )
        print_rows(("name", "difference", "since", "upstream"), rows, more=("upstream",), wide=wide)
    else:
        print_plain(f"Nothing differs from what {name} finds")
    if found:
        raise typer.Exit(1)


@app.command()
@on_catalog
def update(
    kernel: Kernel,
    call: Call,
    name: NameArgument,
    *,
    option: OptionOption = None,
    credential: CredentialOption = None,
    credential_file: CredentialFileOption = None,
    policy: PolicyOption = None,
    no_credentials: Annotated[bool, typer.Option("--no-credentials", help="Forget its credentials.")] = False,
    interval: Annotated[
        str | None, typer.Option("--interval", help="Between two scheduled scans, as an ISO-8601 duration.")
    ] = None,
    enable: Annotated[
        bool | None, typer.Option("--enable/--disable", help="Whether schedules scan it.", show_default=False)
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Change a connector; what is not given stays.

    KEY= takes an option away, or sets a value of the policy to its default. Credentials are given whole.
    """
    from floecat.connectors.connector_info import ConnectorUpdate

    options = None
    if option:
        merged = kernel.connectors.connectors.load(call, name).options
        merged |= dict(_key_and_value("--option", text) for text in option)
        options = {key: value for key, value in merged.items() if value}
    credentials = _credentials(credential, credential_file) or ({} if no_credentials else None)
    interval_ms = None if interval is None else duration_ms("--interval", interval)
    wanted = ConnectorUpdate(options, credentials, enable, interval_ms, _policy(policy))
    changed = kernel.connectors.connectors.update(call, name, wanted)
    if as_json:
        print_json([_response(changed)])
    else:
        print_plain(f"Changed connector {changed.name}; try it: floecat connector validate {changed.name}")


@app.command()
@on_catalog
def validate(kernel: Kernel, call: Call, name: NameArgument, *, as_json: JsonOption = False) -> None:
    """Ask what a scan would ask, for one table, and change nothing. Exits with 1 if a step went wrong."""
    steps = kernel.connectors.trial.run(call, name)
    for step in steps:
        if as_json:
            print_json([step._asdict()])
        elif step.problem is None:
            print_done(step.what)
        else:
            print_error(f"{step.what}: {step.problem}")
    if any(step.problem is not None for step in steps):
        raise typer.Exit(1)


@app.command()
@on_catalog
def adopt(
    kernel: Kernel,
    call: Call,
    name: NameArgument,
    tables: Annotated[list[str], typer.Argument(help="Tables and views here, as NAMESPACE.NAME.")],
    *,
    as_json: JsonOption = False,
) -> None:
    """Make followed tables and views own ones, where they are. Stop commits in the other catalog first."""
    from floecat_rest.management.wire import adopted_response

    separator = call.catalog.schema_separator
    for table in tables:
        made = kernel.connectors.adoption.adopt(call, name, split_levels(parse_identifier(table), separator))
        if as_json:
            print_json([adopted_response(made)])
            continue
        there = "which does not have it any more" if made.is_gone else "drop it there, without its files"
        print_plain(f"Adopted {made.kind} {shown(call, made.identifier)} from {made.address}; {there}")


@app.command()
@on_catalog
def delete(
    kernel: Kernel,
    call: Call,
    name: NameArgument,
) -> None:
    """Delete a connector. The tables that it found stay in the catalog."""
    kernel.connectors.connectors.drop(call, name)
    print_plain(f"Deleted connector {name}")


def _print_report(call: Call, report: ConnectorScanReport) -> None:
    for made in report.registered:
        problem = f", cannot be read: {made.problem.message}" if made.problem else ""
        print_plain(f"registered {shown(call, made.identifier)} at {made.location}{problem}")
    for each in report.changed:
        print_plain(f"{each.change:<10} {shown(call, each.identifier)}, {each.address}")
    for failure in report.failed:
        named = f"{shown(call, failure.identifier)} at " if failure.identifier else ""
        what = f"{named}{failure.location}"
        print_plain(f"failed     {what}: {failure.error.message}")
    if report.error is not None:
        print_plain(f"stopped    {report.error.message}")
    registered = f"{len(report.registered)} registered"
    if report.unreadable:
        registered += f" ({len(report.unreadable)} cannot be read)"
    if report.changed:
        registered += f", {len(report.changed)} changed"
    known, failed = len(report.skipped), len(report.failed)
    folders = f"{report.folders} folders" if report.folders != 1 else "1 folder"
    print_plain(f"{registered}, {known} known before, {failed} failed; {folders} searched")


def _counts(progress: ScanProgress) -> str:
    counts = msgspec.structs.asdict(progress)
    return ", ".join(f"{count} {name}" for name, count in counts.items() if count or name != "failed")


def _policy(given: list[str] | None) -> dict[str, Any] | None:
    """The values of `--policy`, as the service takes them; None for a default."""
    values: dict[str, Any] = {}
    for key, text in (_key_and_value("--policy", each) for each in given or ()):
        value: Any = text or None
        if text and key in ("namespaces", "tables"):
            value = [part.strip() for part in text.split(",")]
        elif text and key == "full":
            value = {"true": True, "false": False}.get(text.lower(), text)
        elif text.isdecimal() and key == "max-parallel":
            value = int(text)
        elif text and key == "not-before":
            value = _time_ms(text)
        values["not-before-ms" if key == "not-before" else key] = value
    return values or None


def _time_ms(text: str) -> int:
    try:
        return int(datetime.fromisoformat(text).astimezone().timestamp() * 1000)
    except ValueError:
        raise BadRequestError(
            f"Invalid --policy: not-before={text!r}, expected a time such as 2026-12-24T06:00"
        ) from None


def _key_and_value(option: str, text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals:
        shown = "what is given" if option.startswith("--credential") else repr(text)
        raise BadRequestError(f"Invalid {option}: {shown}, expected KEY=VALUE")
    return key, value


def _credentials(given: list[str] | None, file: Path | None) -> dict[str, str]:
    lines = []
    if file is not None:
        try:
            text = sys.stdin.read() if str(file) == "-" else file.read_text("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise BadRequestError(f"Credentials cannot be read from {file}: {error}") from None
        lines = [line.strip() for line in text.splitlines() if line.strip()]
    return dict(
        [_key_and_value("--credential-file", line) for line in lines]
        + [_key_and_value("--credential", text) for text in given or ()]
    )


def _response(connector: ConnectorInfo) -> ConnectorResponse:
    from floecat_rest.management.wire import connector_response

    return connector_response(connector)
