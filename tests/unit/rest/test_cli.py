"""The `floecat` command as a user meets it: its output and exit codes.

Most commands run in this process: the imports of a new one take longer than all that the command does.
"""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import msgspec
import pytest
from pyiceberg.catalog import load_catalog
from typer.main import get_command

import floecat
from floecat.auth.principals import Principal
from floecat.commits.commit import CreateTable
from floecat.commits.view_commits import CreateView
from floecat.identifiers.namespace import TableIdentifier
from floecat.runtime import kernel
from floecat.settings import Settings, load_settings
from floecat_rest.cli import app, main
from tests.behaviour.catalog.changes import SCHEMA
from tests.delta_tables import writable_copy
from tests.services.http_server import QuietHandler, serving
from tests.view_documents import view_version

COMMANDS = (
    "",
    "up",
    "serve",
    "dagster",
    "db",
    "db upgrade",
    "db encrypt-secrets",
    "catalog",
    "catalog create",
    "catalog list",
    "catalog update",
    "catalog delete",
    "namespace",
    "namespace list",
    "table",
    "table show",
    "view",
    "view list",
    "view show",
    "view definer",
    "table register-delta",
    "table list",
    "table orphans",
    "table refresh",
    "connector",
    "connector create",
    "connector list",
    "connector scan",
    "connector diff",
    "connector update",
    "connector validate",
    "connector adopt",
    "connector delete",
    "authority",
    "authority create",
    "authority list",
    "authority show",
    "authority update",
    "authority delete",
    "authority check",
    "capture",
    "capture now",
    "capture policy",
    "capture snapshots",
    "table index-artifacts",
    "job",
    "job list",
    "job show",
    "job retry",
    "job cancel",
    "job watch",
    "reconcile",
    "reconcile start",
    "reconcile list",
    "reconcile show",
    "reconcile watch",
    "reconcile cancel",
    "reconcile retry",
    "reconcile settings",
    "purge",
    "purge list",
    "purge show",
    "purge retry",
    "purge cancel",
    "purge watch",
    "account",
    "account create",
    "account list",
    "account show",
    "account disable",
    "account enable",
    "account delete",
    "principal",
    "principal list",
    "principal show",
    "principal disable",
    "principal enable",
    "principal delete",
    "role",
    "role create",
    "role create-built-in",
    "role delete",
    "role add",
    "role remove",
    "role list",
    "role show",
    "access",
    "access grant",
    "access revoke",
    "access owner",
    "access protect",
    "access unprotect",
    "access explain",
    "access who",
    "access history",
    "access export",
    "access diff",
    "access apply",
    "demo",
    "docs",
    "docs settings",
    "version",
)

CREATE_VIEW = CreateView("v", SCHEMA, msgspec.Raw(json.dumps(view_version()).encode()))


@pytest.fixture(autouse=True)
def clean_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith(("FLOECAT_", "DAGSTER_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.chdir(tmp_path)


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "floecat_rest", *arguments]


def run(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    with (
        pytest.MonkeyPatch.context() as patch,
        redirect_stdout(StringIO()) as output,
        redirect_stderr(StringIO()) as errors,
    ):
        patch.setattr(sys, "argv", ["floecat", *arguments])
        for name, value in variables.items():
            patch.setenv(name, value)
        code: str | int | None = 0
        try:
            main()
        except SystemExit as exit:
            code = exit.code
    return subprocess.CompletedProcess(arguments, int(code or 0), output.getvalue(), errors.getvalue())


def run_process(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command(*arguments), capture_output=True, text=True, timeout=60, check=False)


@contextmanager
def running(*arguments: str, **variables: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        command(*arguments),
        env=os.environ | variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.terminate()
        process.communicate(timeout=120)


def stop(process: subprocess.Popen[str], number: signal.Signals) -> str:
    process.send_signal(number)
    output, _ = process.communicate(timeout=120)
    return output


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def get(port: int, path: str) -> bytes:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=60) as answer:
        return bytes(answer.read())


def wait_until_ready(process: subprocess.Popen[str], port: int) -> None:
    deadline = time.monotonic() + 120
    problem = "nothing was tried"
    while time.monotonic() < deadline:
        assert process.poll() is None, process.communicate()[0]
        try:
            get(port, "/health/ready")
        except OSError as error:
            problem = str(error)
            time.sleep(0.1)
        else:
            return
    raise AssertionError(problem)


def is_free(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) != 0


def one_error(result: subprocess.CompletedProcess[str], code: int) -> str:
    assert result.returncode == code, result.stderr
    assert result.stdout == ""
    assert re.fullmatch(r"error: .+\n", result.stderr), result.stderr
    return result.stderr.removeprefix("error: ").strip()


@pytest.mark.parametrize("name", COMMANDS)
def test_help(name: str) -> None:
    result = run(*name.split(), "-h" if name == "up" else "--help")
    assert result.returncode == 0
    assert "Usage: floecat" in result.stdout
    assert result.stderr == ""


def test_a_list_of_commands_shows_the_help_of_each() -> None:
    group = get_command(app)
    with group.make_context("floecat", ["--version"], resilient_parsing=True) as context:
        for name in group.list_commands(context):
            _, command, _ = group.resolve_command(context, [name])
            first, _, _ = command.help.partition("\n\n")
            assert group.get_command(context, name).help == " ".join(first.split())


def test_help_imports_no_service() -> None:
    program = (
        "import sys; from floecat_rest.cli import main\n"
        "lines = ['--version', *(each + ' --help' for each in sys.argv[1:])]\n"
        "for line in lines:\n"
        "    sys.argv = ['floecat', *line.split()]\n"
        "    try: main()\n"
        "    except SystemExit as ended: assert not ended.code\n"
        "heavy = {'dagster', 'floecat.runtime', 'litestar', 'pyarrow', 'sqlalchemy'} & sys.modules.keys()\n"
        "sys.exit(', '.join(heavy) or None)"
    )
    subprocess.run([sys.executable, "-c", program, *COMMANDS], check=True, stdout=subprocess.DEVNULL)


def test_version() -> None:
    assert run_process("version").stdout == f"floecat {floecat.__version__}\n"
    assert run("--version").stdout == f"floecat {floecat.__version__}\n"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shells_complete_names_of_commands(shell: str) -> None:
    """As the script asks that `floecat --install-completion` puts in place."""
    asked = {
        "bash": {"COMP_WORDS": "floecat tab", "COMP_CWORD": "1"},
        "zsh": {"_TYPER_COMPLETE_ARGS": "floecat tab"},
        "fish": {"_TYPER_COMPLETE_ARGS": "floecat tab", "_TYPER_COMPLETE_FISH_ACTION": "get-args"},
    }
    completed = run(_FLOECAT_COMPLETE=f"complete_{shell}", **asked[shell])
    assert "table" in completed.stdout
    assert "catalog" not in completed.stdout


def test_unknown_option_is_a_usage_error() -> None:
    result = run_process("serve", "--prot", "1")
    assert result.returncode == 2
    assert "No such option" in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize("name", ["up", "serve", "dagster", "db upgrade", "catalog list", "demo"])
def test_unknown_setting_stops_every_command(name: str) -> None:
    result = run(*name.split(), FLOECAT_GATEWAY_REST_PROT="1")
    assert one_error(result, 2) == (
        "FLOECAT_GATEWAY_REST_PROT: no such setting; did you mean FLOECAT_GATEWAY_REST_PORT?"
    )
    assert not Path(".floecat").exists()


def test_ill_typed_option_names_the_setting() -> None:
    assert one_error(run("serve", "--workers", "0"), 2) == (
        "floecat.gateway.workers (command line): expected an integer from 1 to 256, got an integer 0"
    )


def test_missing_file_of_settings() -> None:
    assert (
        one_error(run_process("serve", "--config", "no.toml"), 2)
        == "cannot read no.toml: No such file or directory"
    )


@pytest.mark.parametrize("name", ["up", "serve"])
def test_port_in_use(name: str) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        message = one_error(run(name, "--rest-port", str(port)), 2)
    assert message == f"port {port} of 127.0.0.1 is in use; choose another with --rest-port"


def test_all_ports_in_use_are_named_with_who_listens() -> None:
    class Floecat(QuietHandler):
        def do_GET(self) -> None:
            self.send_response(200 if self.path == "/" else 404)
            self.end_headers()
            self.wfile.write(b'{"name":"Floecat"}' if self.path == "/" else b"")

    class Dagster(QuietHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b'{"dagster_webserver_version":"1.13"}' if self.path == "/server_info" else b"")

    with serving(Floecat) as rest, serving(Dagster) as dagster:
        ports = [url.rpartition(":")[2] for url in (rest, dagster)]
        message = one_error(run("up", "--rest-port", ports[0], "--dagster-port", ports[1]), 2)
    assert message == (
        f"port {ports[0]} of 127.0.0.1 is in use by Floecat and port {ports[1]} of 127.0.0.1 is in use by"
        " Dagster; choose another with --rest-port and --dagster-port"
    )


@pytest.mark.parametrize("name", ["up", "serve"])
def test_dev_mode_refuses_to_serve_others(name: str) -> None:
    message = one_error(run(name, "--host", "0.0.0.0"), 2)
    assert "auth-mode=dev asks for no login" in message
    assert "floecat.gateway.dev-allow-remote=true" in message


def test_host_that_is_not_of_this_machine() -> None:
    result = run("serve", "--host", "192.0.2.1", FLOECAT_GATEWAY_DEV_ALLOW_REMOTE="true")
    assert one_error(result, 2).startswith("cannot listen on port 9200 of 192.0.2.1: ")


@pytest.mark.parametrize("name", ["serve", "catalog list", "table list", "job list", "dagster"])
def test_a_folder_without_a_store(name: str, tmp_path: Path) -> None:
    elsewhere = {"FLOECAT_STORE_URL": "sqlite:///missing/folder/x.db"}
    for environ, place in (({}, ".floecat/floecat.db"), (elsewhere, "missing/folder/x.db")):
        message = one_error(run(*name.split(), **environ), 2)
        assert message.startswith(f"There is no store at {tmp_path}/{place}: `floecat db upgrade`")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["serve", "catalog list"])
def test_store_without_schema(name: str, tmp_path: Path) -> None:
    Path("other.db").touch()
    result = run(*name.split(), FLOECAT_STORE_URL=f"sqlite:///{tmp_path / 'other.db'}")
    assert "floecat db upgrade" in one_error(result, 2)


def test_store_that_is_away() -> None:
    port = free_port()
    url = f"postgresql+psycopg://me:hunter2@127.0.0.1:{port}/lake"
    for command in (("db", "upgrade"), ("catalog", "list")):
        message = one_error(run(*command, FLOECAT_STORE_URL=url), 1)
        assert message.startswith(f"The store is not available: database lake at 127.0.0.1, port {port}: ")
        assert message.endswith("Connection refused")
        assert "hunter2" not in message


def test_a_file_of_the_store_that_cannot_be_opened_is_named(tmp_path: Path) -> None:
    Path("file").touch()
    message = one_error(run("db", "upgrade", FLOECAT_STORE_URL=f"sqlite:///{tmp_path}/file/x.db"), 1)
    assert message.startswith(f"The store cannot open its file: {tmp_path}/file: ")
    Path("folder").mkdir()
    message = one_error(run("db", "upgrade", FLOECAT_STORE_URL=f"sqlite:///{tmp_path}/folder"), 1)
    assert message.startswith(f"The store cannot open its file: {tmp_path}/folder: ")


def test_a_store_for_several_machines_needs_keys_of_secrets(tmp_path: Path) -> None:
    elsewhere = {"FLOECAT_STORE_URL": f"sqlite:///{tmp_path}/other.db"}
    for command in ("db upgrade", "catalog list", "db encrypt-secrets"):
        assert run(*command.split(), **elsewhere).returncode == 0
    for command in ("up", "serve", "dagster"):
        message = one_error(run(command, **elsewhere), 2)
        assert message.startswith("floecat.secrets.keys is not set, and floecat.store.url is")
        assert "openssl rand -base64 32" in message
    message = one_error(run("catalog", "list", FLOECAT_SECRETS_KEYS="zebra", **elsewhere), 2)
    assert message.startswith("floecat.secrets.keys: a key is malformed")
    assert "zebra" not in message


def test_authorities_by_command(tmp_path: Path) -> None:
    assert run("db", "upgrade").returncode == 0
    secret = tmp_path / "secret"
    secret.write_text("hunter2\n")
    create = ("authority", "create", "lake", "s3a://lake/tables/")
    options = (
        "--option",
        "access-key-id=AKIA",
        "--option",
        "duration-s=900",
        "--option",
        "tells-endpoint=false",
    )
    assert "secret-access-key is missing" in one_error(run(*create, *options), 2)
    assert "--option: 'role', expected KEY=VALUE" in one_error(run(*create, "--option", "role"), 2)
    assert "unknown field `role`" in one_error(run(*create, "--option", "role=x"), 2)
    assert "Expected `int`" in one_error(run(*create, "--option", "duration-s=long"), 2)
    assert "expected s3://, gs:// or abfss://" in one_error(run("authority", "create", "lake", "/tmp"), 2)
    assert "cannot be read from nowhere" in one_error(run(*create, *options, "--secret-file", "nowhere"), 2)
    made = run(*create, *options, "--secret-file", str(secret), "--json")
    shown = json.loads(made.stdout)
    assert (shown["prefix"], shown["secrets"]) == ("s3://lake/tables", {"secret-access-key": "***"})
    assert (shown["method"]["duration-s"], shown["method"]["tells-endpoint"]) == (900, False)
    update = ("authority", "update", "lake", "--option", "duration-s=", "--option", "region=eu-west-1")
    assert run(*update, "--rename", "pond", "--disable").returncode == 0
    shown = json.loads(run("authority", "show", "pond", "--json").stdout)
    assert (shown["method"]["duration-s"], shown["method"]["region"], shown["enabled"]) == (
        3600,
        "eu-west-1",
        False,
    )
    lines = run("authority", "show", "pond").stdout.splitlines()
    assert {"kind: s3", "enabled: false", "region: eu-west-1", "secret-access-key: ***"} <= set(lines)
    assert run("authority", "list").stdout.split() == [
        *("name", "kind", "enabled", "prefix"),
        *("pond", "s3", "no", "s3://lake/tables"),
    ]
    assert [json.loads(run("authority", "list", "--json").stdout)["name"]] == ["pond"]
    assert "There is no storage authority lake" in one_error(run("authority", "check", "lake"), 1)
    assert run("authority", "delete", "pond").stdout == "Deleted storage authority pond\n"
    assert run("authority", "list", "--json").stdout == ""
    assert "hunter2" not in made.stdout + "".join(lines)


def test_brackets_are_printed_as_they_are() -> None:
    assert run("db", "upgrade").returncode == 0
    location = "s3://bucket/[red]lake"
    created = run("catalog", "create", "lake", "--location", location, "--no-check")
    assert created.stdout == f"Created catalog lake at {location}\n"
    assert location in run("catalog", "list").stdout
    assert "[red]" in one_error(run("table", "refresh", "[red].orders"), 1)
    assert "[bold]" in one_error(run("serve", "--config", "[bold].toml"), 2)


def test_a_location_that_is_set_after_the_first_start_is_reported(tmp_path: Path) -> None:
    assert run("db", "upgrade").stderr == ""
    kept = f"Catalog floecat keeps its tables at {(tmp_path / '.floecat' / 'warehouse').as_uri()}, where it"
    later = run("db", "upgrade", FLOECAT_GATEWAY_DEFAULT_WAREHOUSE_PATH="s3://lake/tables/")
    assert later.returncode == 0
    assert later.stderr.startswith(kept)
    assert "default-warehouse-path gives now, s3://lake/tables, counts only for a new catalog" in later.stderr
    Path(".floecat").rename("moved")
    moved = run("db", "upgrade", "--data-dir", "moved")
    assert moved.stderr.startswith(kept)
    assert "floecat.data-dir gives now" in moved.stderr


def test_data_folder_that_cannot_be_made() -> None:
    Path("file").write_text("", encoding="utf-8")
    for folder in ("file", "file/data"):
        for command in (("db", "upgrade"), ("up", "--no-dagster", "--rest-port", "0")):
            message = one_error(run(*command, "--data-dir", folder), 2)
            assert message == f"There is a file where a folder belongs: {Path.cwd()}/file"


def test_catalogs_are_created_and_listed() -> None:
    assert run("db", "upgrade").returncode == 0
    assert run("db", "upgrade").stdout == "The store is up to date.\n"
    created = run(
        "catalog",
        "create",
        "lake",
        "--location",
        "s3://bucket/lake",
        "--no-check",
        "--allowed-location",
        "s3://other",
    )
    assert (created.returncode, created.stdout) == (0, "Created catalog lake at s3://bucket/lake\n")
    assert one_error(run("catalog", "create", "lake"), 1) == "Catalog already exists: lake"
    assert "Invalid catalog name" in one_error(run("catalog", "create", "a/b"), 2)
    assert run("catalog", "create", "near").returncode == 0
    warehouse = (Path.cwd() / ".floecat" / "warehouse").as_uri()
    assert run("access", "protect", "catalog", "--catalog", "lake").returncode == 0
    assert "Protected, so not removed: catalog lake" in one_error(run("catalog", "delete", "lake"), 1)
    listed = [line.split() for line in run("catalog", "list").stdout.splitlines()[1:]]
    assert listed == [
        ["floecat", "no", warehouse],
        ["lake", "yes", "s3://bucket/lake"],
        ["near", "no", f"{warehouse}-near"],
    ]


def test_catalogs_are_changed_and_deleted() -> None:
    assert run("db", "upgrade").returncode == 0
    assert run("catalog", "create", "lake").returncode == 0
    place = (Path.cwd() / ".floecat" / "warehouse-lake").as_uri()
    changed = run("catalog", "update", "lake", "--add-location", "s3://a", "--add-location", "s3://b")
    assert changed.stdout == f"Catalog lake is nested by :, at {place}; further locations: s3://a, s3://b\n"
    (changed_again,) = objects("catalog", "update", "lake", "--remove-location", "s3://a")
    assert changed_again["allowed-locations"] == ["s3://b"]
    settings = load_settings()
    with kernel(settings) as opened:
        call = opened.catalog.calls.open(Principal("anna", settings.gateway.default_account_id), "lake")
        opened.catalog.namespaces.create(call, ("ns",), {})
        assert one_error(run("catalog", "delete", "lake"), 1) == "Catalog lake is not empty (namespaces: 1)"
        opened.catalog.namespaces.drop(call, ("ns",))
    assert run("catalog", "delete", "lake").stdout == "Deleted catalog lake\n"
    assert one_error(run("catalog", "delete", "lake"), 1) == "Warehouse does not exist: lake"


def test_a_catalog_is_created_where_files_can_be_written() -> None:
    assert run("db", "upgrade").returncode == 0
    assert run("catalog", "create", "near").returncode == 0
    assert not list((Path.cwd() / ".floecat").rglob("floecat-*"))
    Path("file").touch()
    place = (Path.cwd() / "file" / "lake").as_uri()
    message = one_error(run("catalog", "create", "lake", "--location", place), 2)
    assert message.startswith(f"Files cannot be written and deleted at {place}: ")
    assert run("catalog", "create", "lake", "--location", place, "--no-check").returncode == 0
    unknown = one_error(run("catalog", "create", "far", "--location", "hdfs://host/lake"), 2)
    assert "the scheme must be one of" in unknown


def test_catalogs_belong_to_an_account() -> None:
    other = "00000000-0000-7000-8000-000000000001"
    assert run("db", "upgrade").returncode == 0
    assert run("catalog", "create", "floecat", "--account", other).returncode == 0
    listed = run("catalog", "list", "--account", other).stdout.splitlines()[1:]
    assert [line.split()[0] for line in listed] == ["floecat"]
    assert len(run("catalog", "list").stdout.splitlines()) == 2
    assert run("catalog", "list", "--account", "me").stderr == "error: Account does not exist: me\n"


def test_accounts_are_created_disabled_and_deleted() -> None:
    assert run("db", "upgrade").returncode == 0
    made = run("account", "create", "marketing", "--json")
    account = json.loads(made.stdout)["id"]
    assert json.loads(made.stdout).keys() == {"id", "name", "disabled", "created-at-ms"}
    listed = [json.loads(line)["name"] for line in run("account", "list", "--json").stdout.splitlines()]
    assert listed == [str(Settings().gateway.default_account_id), "marketing"]
    assert (run("account", "create", "marketing").returncode, made.returncode) == (1, 0)
    assert run("catalog", "create", "lake", "--account", "marketing").returncode == 0
    shown = json.loads(run("account", "show", "marketing", "--json").stdout)
    assert shown["contents"] == {"catalogs": 1, "authorities": 0, "principals": 0, "roles": 0, "grants": 0}
    assert run("account", "disable", account).stdout == "Disabled account marketing\n"
    assert re.search(
        rf"^marketing +{account} +20\S+ \S+ +disabled$", run("account", "list").stdout, re.MULTILINE
    )
    # a command holds the store
    assert run("namespace", "list", "--catalog", "lake", "--account", "marketing").returncode == 0
    assert run("account", "enable", "marketing").stdout == "Enabled account marketing\n"
    refused = run("account", "delete", "marketing")
    assert (refused.returncode, refused.stderr) == (
        1,
        "error: Account marketing is not empty (catalogs: 1)\n",
    )
    assert run("catalog", "delete", "lake", "--account", account).returncode == 0
    assert run("account", "delete", "marketing").stdout == "Deleted account marketing\n"
    assert "does not exist: marketing" in run("account", "show", "marketing").stderr
    assert "Invalid name" in run("account", "create", str(uuid.uuid4())).stderr


@pytest.fixture
def lake() -> Path:
    """A folder with two Delta tables, below the warehouse of a store that is ready."""
    assert run("db", "upgrade").returncode == 0
    folder = Path.cwd() / ".floecat" / "warehouse" / "lake"
    folder.mkdir(parents=True)
    writable_copy("kernel-rs/table-with-dv-small", folder / "orders")
    writable_copy("delta-rs/simple_table_features", folder / "future")
    return folder


def test_delta_tables_are_registered_listed_and_refreshed(lake: Path) -> None:
    orders, future = ((lake / name).as_uri() for name in ("orders", "future"))
    missing = run("table", "register-delta", "ns.orders", f"{orders}-not-there")
    assert "There is no Delta table" in one_error(missing, 2)
    made = run("table", "register-delta", "ns.orders", orders, "--catalog", "floecat")
    assert (made.returncode, made.stderr) == (0, "")
    note, line = made.stdout.splitlines()
    assert note == "Created namespace ns"
    assert line.startswith(f"Registered ns.orders at {orders}: version 1, id ")
    orders_id = line.rpartition(" ")[2]
    unreadable = run("table", "register-delta", "ns.future", future, "--format-version", "3")
    assert unreadable.returncode == 0
    assert unreadable.stdout.startswith(f"Registered ns.future at {future}: not read yet, id ")
    future_id = unreadable.stdout.split()[-1]
    assert unreadable.stderr.startswith("It cannot be read: ")
    assert "blahabl" in unreadable.stderr
    listed = [line.split(maxsplit=5) for line in run("table", "list", "--wide").stdout.splitlines()[1:]]
    assert listed[1] == ["ns.orders", "delta", "1", orders_id, orders]
    assert listed[0][:5] == ["ns.future", "delta", "-", future_id, future]
    assert "blahabl" in listed[0][5]
    assert run("table", "refresh", "ns.orders").stdout == "ns.orders is at version 1\n"
    assert "blahabl" in one_error(run("table", "refresh", "ns.future"), 1)


def objects(*arguments: str) -> list[dict[str, Any]]:
    """What a command prints with `--json`."""
    result = run(*arguments, "--json")
    assert (result.returncode, result.stderr) == (0, "")
    return [msgspec.json.decode(line) for line in result.stdout.splitlines()]


def test_tables_and_namespaces_are_listed_and_shown(lake: Path) -> None:
    orders = (lake / "orders").as_uri()
    (made,) = objects("table", "register-delta", "b.orders", orders)
    settings = load_settings()
    with kernel(settings) as opened:
        gateway = settings.gateway
        call = opened.catalog.calls.open(
            Principal("anna", gateway.default_account_id), gateway.default_prefix
        )
        opened.catalog.namespaces.create(call, ("a", "x.y"), {})
        table = CreateTable(name="t", schema=SCHEMA, properties={"owner": "anna"})
        opened.commits.tables.create_table(call, ("a", "x.y"), table)
    assert run("namespace", "list").stdout.split() == ["namespace", "a", '"a:x.y"', "b"]
    assert objects("namespace", "list", "a") == [{"namespace": ["a", "x.y"]}]
    assert one_error(run("namespace", "list", "c"), 1) == "Namespace does not exist: c"
    rows = [line.split() for line in run("table", "list").stdout.splitlines()[1:]]
    assert [row[:3] for row in rows] == [['"a:x.y".t', "iceberg", "-"], ["b.orders", "delta", "1"]]
    without_delta = run("table", "list", FLOECAT_GATEWAY_DELTA_COMPAT_ENABLED="false")
    assert len(without_delta.stdout.splitlines()) == 3
    iceberg, delta = objects("table", "list")
    assert (delta["id"], delta["snapshot-id"], delta["location"]) == (made["id"], 1, orders)
    assert (iceberg["namespace"], iceberg["problem"]) == (["a", "x.y"], None)
    assert run("table", "show", 'a."x.y".t').stdout == run("table", "show", '"a:x.y".t').stdout
    shown = run("table", "show", '"a:x.y".t').stdout
    assert shown.split()[:2] == ["table", '"a:x.y".t']
    assert re.search(r"property owner +anna", shown)
    assert re.search(r"metadata file +file:.*metadata\.json", shown)
    (found,) = objects("table", "show", "b.orders")
    assert (found["format"], found["description"]["row-count"]) == ("delta", 10)
    assert [column["name"] for column in found["description"]["columns"]] == ["value"]
    assert one_error(run("table", "show", "b.none"), 1) == "Table does not exist: b.none"


def test_nested_namespaces_are_shown_and_read_as_one_name(lake: Path) -> None:
    settings = load_settings()
    with kernel(settings) as opened:
        account = settings.gateway.default_account_id
        call = opened.catalog.calls.open(Principal("anna", account), settings.gateway.default_prefix)
        opened.catalog.namespaces.create(call, ("a", "b"), {})
        for name in ("t", "gone"):
            opened.commits.tables.create_table(call, ("a", "b"), CreateTable(name=name, schema=SCHEMA))
        opened.purge.drops.drop(call, TableIdentifier(("a", "b"), "gone"), purge=True)
    run("principal", "create", "ada")
    run("role", "create", "r")
    assert run("access", "grant", "use_schema", "namespace:a:b", "role:r").stdout == (
        "Granted use_schema on namespace a:b of catalog floecat to role:r\n"
    )
    assert run("access", "grant", "read_table", "table:a.b.t", "role:r").stdout == (
        "Granted read_table on table a:b.t of catalog floecat to role:r\n"
    )
    granted = run("role", "show", "r").stdout
    assert "namespace a:b of catalog floecat" in granted
    assert "table a:b.t of catalog floecat" in granted
    owned = run("access", "owner", "namespace:a:b", "role:r").stdout
    assert owned == "role:r owns namespace a:b of catalog floecat\n"
    run("role", "add", "r", "principal:ada")
    told = run("access", "explain", "ada", "read_table", "table:a.b.t").stdout.splitlines()
    ways = ("is owner of namespace a:b of", "has read_table on table a:b.t of")
    assert told == [f"allowed: principal:ada in role:r {way} catalog floecat" for way in ways]
    refused = run("access", "explain", "eve", "read_table", "table:a:b.t").stdout
    assert refused.endswith(", namespace a:b of catalog floecat, table a:b.t of catalog floecat\n")
    assert "table a:b.t of catalog floecat" in run("access", "who", "table:a:b.t").stdout
    history = run("access", "history").stdout
    for change in (
        "grant use_schema on namespace a:b of catalog floecat to role:r",
        "grant read_table on table a:b.t of catalog floecat to role:r",
        "role:r owns namespace a:b of catalog floecat",
    ):
        assert change in history
    none = one_error(run("access", "owner", "table:a:b.none", "role:r"), 1)
    assert none == "There is no table a:b.none of catalog floecat"
    assert run("access", "protect", "table:a:b.t").stdout == "Protected: table a:b.t of catalog floecat\n"
    assert "protect table a:b.t of catalog floecat" in run("access", "history", "--limit", "1").stdout
    listed = run("catalog", "clashes", "floecat", "--separator", "b").stdout.splitlines()
    assert listed == ["namespace", "a:b"]
    made = run("connector", "create", "lake", lake.as_uri(), "--namespace", "a:c").stdout
    assert made.endswith("its tables go to namespace a:c\n")
    assert "a:c.orders at" in run("connector", "scan", "lake").stdout
    assert run("purge", "list").stdout.splitlines()[1].split()[1] == "a:b.gone"
    (job,) = objects("job", "list", "--kind", "purge", "--entry", "a:b.gone")
    assert job["title"] == "a:b.gone"
    for command in ("job", "purge"):
        for typed in ("a:b.gone", "a.b.gone"):
            assert run(command, "list", "--table", typed).stdout.splitlines()[1].startswith(job["id"])
        assert len(run(command, "list", "--table", '"a.b".gone').stdout.splitlines()) == 1
        shown = [line.split() for line in run(command, "show", job["id"]).stdout.splitlines()]
        assert ["what", "a:b.gone"] in shown
    assert run("job", "list", "--kind", "purge").stdout.splitlines()[1].split()[1:3] == ["purge", "a:b.gone"]
    assert run("job", "cancel", job["id"]).stdout == f"Job {job['id']} (purge of a:b.gone) is cancelled\n"
    assert run("purge", "watch", job["id"]).stdout.startswith(f"{job['id']} a:b.gone cancelled")


def test_views_are_listed_and_shown_and_names_may_begin_with_their_catalog(lake: Path) -> None:
    run("table", "register-delta", "floecat.ns.orders", (lake / "orders").as_uri())
    run("catalog", "create", "other")
    settings = load_settings()
    with kernel(settings) as opened:
        account = settings.gateway.default_account_id
        for catalog in ("floecat", "other"):
            call = opened.catalog.calls.open(Principal("anna", account), catalog)
            opened.catalog.namespaces.create(call, ("ns", "inner"), {})
            opened.commits.views.create(call, ("ns", "inner"), CREATE_VIEW)
    name = CREATE_VIEW.name
    assert [line.split()[0] for line in run("view", "list").stdout.splitlines()] == [
        "name",
        f"ns:inner.{name}",
    ]
    (listed,) = objects("view", "list", "--namespace", "other.ns")
    assert (listed["namespace"], listed["format"]) == (["ns", "inner"], "iceberg")
    shown = run("view", "show", f"other.ns:inner.{name}").stdout
    assert re.search(r"location +file:.*/warehouse-other/", shown)
    assert "SQL of spark:\nSELECT" in shown
    (described,) = objects("view", "show", f"ns.inner.{name}")
    assert described["metadata"]["location"] in described["metadata-location"]
    for command, message in (
        (f"table show ns.inner.{name}", f"it is a view: floecat view show ns:inner.{name}"),
        ("view show floecat.ns.orders", "it is a table: floecat table show ns.orders"),
        ("table statistics ns.order", "did you mean ns.orders?"),
        ("table plan n.orders", "did you mean ns.orders?"),
        ("table list --namespace ns.iner", "did you mean ns:inner?"),
        ("table list --namespace ns:iner", "did you mean ns:inner?"),
        ("view list --catalog othr", "did you mean other?"),
        ("catalog delete othr", "did you mean other?"),
    ):
        assert one_error(run(*command.split()), 1).endswith(f"; {message}")
    assert one_error(run("table", "show", "other.ns.orders", "--catalog", "floecat"), 1) == (
        "Table does not exist: other.ns.orders"
    )


def test_connectors_jobs_and_plans_as_json(lake: Path) -> None:
    (made,) = objects("connector", "create", "lake", lake.as_uri())
    assert (made["name"], made["interval"]) == ("lake", "PT10M")
    (scanned,) = objects("connector", "scan", "lake")
    assert [table["identifier"]["name"] for table in scanned["registered"]] == ["future", "orders"]
    assert objects("connector", "list")[0]["last-error"] is None
    (plan,) = objects("table", "plan", "lake.orders")
    assert plan["files-by-metrics"] == 1
    assert objects("catalog", "list")[0]["name"] == "floecat"
    (captures,) = objects("job", "list")
    assert (captures["kind"], captures["title"]) == ("capture-table", "lake.orders")


def test_scans_are_started_and_shown_as_trees(lake: Path) -> None:
    objects("connector", "create", "lake", lake.as_uri())
    (job,) = objects("reconcile", "start", "lake")
    assert (job["kind"], job["state"], job["details"]["registered"]) == ("connector-scan", "succeeded", 2)
    started = run("reconcile", "start", "lake", "--full")
    assert started.stdout.startswith("Job ")
    assert "succeeded; " in started.stdout
    tree = run("reconcile", "show", job["id"]).stdout.splitlines()
    assert tree[0].startswith("connector-scan lake succeeded; ")
    assert tree[1].startswith("└── capture-table lake.orders queued")
    (found,) = objects("reconcile", "show", job["id"])
    assert [child["kind"] for child in found["children"]] == ["capture-table"]
    assert len(objects("reconcile", "list", "--connector", "lake")) == 2
    assert run("reconcile", "cancel", job["id"]).stdout == f"Reconcile {job['id']} of lake is succeeded\n"
    (found,) = objects("reconcile", "show", job["id"])
    assert [child["state"] for child in found["children"]] == ["cancelled"]
    watched = run("reconcile", "watch", job["id"])
    assert (watched.returncode, "cancelled" in watched.stdout) == (0, True)
    assert "what failed is due now" in run("reconcile", "retry", job["id"]).stdout
    (settings,) = objects("reconcile", "settings")
    assert (settings["scan-attempts"], settings["scan-backoff-ms"]) == (8, [500, 30_000])
    assert "PT0.5S to PT30S" in run("reconcile", "settings").stdout
    assert one_error(run("reconcile", "start", "none"), 1) == "Connector does not exist: none"


def test_plans_are_explained(lake: Path) -> None:
    assert run("table", "register-delta", "ns.orders", (lake / "orders").as_uri()).returncode == 0
    made = run("table", "plan", "ns.orders", "--filter", "value >= 5 and value < 100")
    assert (made.returncode, made.stderr) == (0, "")
    lines = [" ".join(line.split()) for line in made.stdout.splitlines()]
    assert lines[0] == "ns.orders, snapshot 1"
    assert "files, by bounds and counts 1 1" in lines
    assert any(line.startswith("Data files: 1, with 10 rows, ") for line in lines)
    assert any(line.endswith("; 1 have deletes. Delete files: 1") for line in lines)
    assert lines[-1] == "1 (value >= 5 and value < 100)"
    nothing = run("table", "plan", "ns.orders", "--filter", "value > 1000")
    assert "files, by bounds and counts 1 0" in [
        " ".join(line.split()) for line in nothing.stdout.splitlines()
    ]
    for filter, message in (
        ("value >", "it ends too early, at character 8"),
        ("(value > 1 and value ! 2)", "cannot be read from character 22 on: '! 2)'"),
        ("not (value > 1) value", "cannot be read from character 17 on: 'value'"),
        ("value like '%x%'", "like takes % as its last character alone"),
        ("Valu = 1", "cannot find column Valu; did you mean value?"),
    ):
        wrong = run("table", "plan", "ns.orders", "--filter", filter)
        assert one_error(wrong, 2) == f"Invalid filter: {message}"
    wrong = run("table", "plan", "ns.orders", "--filter", "value > 1 and value = 'x'")
    assert one_error(wrong, 2) == "Invalid filter.right (value): 'x' is not of type int, as 42 is"
    assert "no snapshot 9" in one_error(run("table", "plan", "ns.orders", "--snapshot", "9"), 1)
    assert run("table", "plan", "ns.orders", "--snapshot", "main").stdout.splitlines()[0] == lines[0]


def test_a_table_too_large_for_loads_is_refreshed(lake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without Dagster, and with a display of its progress on a terminal."""
    monkeypatch.setenv("FLOECAT_LIMITS_DELETED_ROWS", "1")
    made = run("table", "register-delta", "ns.orders", (lake / "orders").as_uri())
    assert "or by: floecat table refresh ns.orders" in made.stderr
    terminal, end = os.openpty()
    arguments = command("table", "refresh", "ns.orders")
    refreshed = subprocess.run(arguments, stdout=subprocess.PIPE, stderr=end, timeout=60, check=True)
    os.close(end)
    assert refreshed.stdout == b"ns.orders is at version 1\n"
    assert b"Versions of ns.orders" in os.read(terminal, 1 << 16)
    os.close(terminal)
    assert run("table", "list").stdout.splitlines()[1].split()[:3] == ["ns.orders", "delta", "1"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("table", "refresh", "orders"), "Invalid table name: 'orders', expected NAMESPACE.NAME"),
        (("table", "refresh", "ns..orders"), "Invalid table name: 'ns..orders', expected NAMESPACE.NAME"),
        (("table", "refresh", 'ns."a'), "Invalid table name: 'ns.\"a', expected NAMESPACE.NAME"),
        (
            ("connector", "create", "c", "file:///x", "--namespace", "a..b"),
            "Invalid namespace: 'a..b', expected OUTER.INNER",
        ),
        (
            ("connector", "create", "c", "file:///x", "--option", "flat"),
            "Invalid --option: 'flat', expected KEY=VALUE",
        ),
        (
            ("connector", "create", "c", "file:///x", "--interval", "5m"),
            "Invalid --interval: '5m', expected an ISO-8601 duration such as PT10M or P7D",
        ),
        (("table", "orphans"), "One of the NAME of a table, --namespace or --all is needed"),
        (
            ("table", "statistics", "ns.orders", "--kind", "colum"),
            "Invalid --kind: 'colum', expected one of table, column, expression, file; did you mean column?",
        ),
    ],
)
def test_wrong_arguments_about_tables_and_connectors(
    lake: Path, arguments: tuple[str, ...], message: str
) -> None:
    assert one_error(run(*arguments), 2) == message


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("table", "refresh", "ns.none"), "Table does not exist: ns.none"),
        (("table", "list", "--catalog", "none"), "Warehouse does not exist: none"),
        (("connector", "scan", "none"), "Connector does not exist: none"),
        (
            ("connector", "create", "c", "s3://other"),
            "Location is not within the allowed locations: s3://other",
        ),
    ],
)
def test_mistakes_about_tables_and_connectors(lake: Path, arguments: tuple[str, ...], message: str) -> None:
    assert one_error(run(*arguments), 1) == message


def test_orphan_files_are_listed_and_deleted(lake: Path) -> None:
    settings = load_settings()
    with kernel(settings) as opened:
        gateway = settings.gateway
        call = opened.catalog.calls.open(
            Principal("anna", gateway.default_account_id), gateway.default_prefix
        )
        opened.catalog.namespaces.create(call, ("ns",), {})
        opened.commits.tables.create_table(call, ("ns",), CreateTable(name="t", schema=SCHEMA))
    folder = next((Path(settings.data_dir) / "warehouse" / "ns").glob("t-*"))
    stray = folder / "data" / "stray.parquet"
    stray.write_bytes(b"rows")
    assert run("table", "orphans", "ns.t", "--wide").stdout.split()[-8:-2] == [
        "ns.t",
        "2",
        "0",
        "0",
        "-",
        "2",
    ]
    os.utime(stray, (0, 0))
    for scope in (["ns.t"], ["--namespace", "ns"], ["--all"]):
        assert run("table", "orphans", *scope).stdout.splitlines()[0] == stray.absolute().as_uri()
    run("table", "register-delta", "ns.orders", (lake / "orders").as_uri())
    lines = run("table", "orphans", "--all", "--delete", "--json").stdout.splitlines()
    found, delta, iceberg = (msgspec.json.decode(line) for line in lines)
    assert (found["location"], found["size-bytes"]) == (stray.absolute().as_uri(), 4)
    assert (iceberg["deleted"], iceberg["deleted-bytes"], iceberg["problem"]) == (1, 4, None)
    assert "it is a delta table" in delta["problem"]
    assert not stray.exists()
    assert "at least a day" in one_error(run("table", "orphans", "ns.t", "--older-than", "PT1H"), 2)


def test_connectors_are_created_scanned_and_deleted(lake: Path) -> None:
    made = run("connector", "create", "lake", lake.as_uri(), "--namespace", "raw.eu", "--interval", "PT1H")
    assert made.stdout == (f"Created connector lake for {lake.as_uri()}; its tables go to namespace raw:eu\n")
    scanned = run("connector", "scan", "lake")
    assert scanned.returncode == 0, scanned.stderr
    future, orders, counts = scanned.stdout.splitlines()
    assert orders == f"registered raw:eu.orders at {lake.as_uri()}/orders"
    assert future.startswith(f"registered raw:eu.future at {lake.as_uri()}/future, cannot be read: ")
    assert counts == "2 registered (1 cannot be read), 0 known before, 0 failed; 3 folders searched"
    assert (
        run("connector", "scan", "lake").stdout
        == "0 registered, 2 known before, 0 failed; 3 folders searched\n"
    )
    (row,) = run("connector", "list", "--wide").stdout.splitlines()[1:]
    assert row.split()[:5] == ["lake", "delta", lake.as_uri(), "raw:eu", "yes"]
    assert run("connector", "delete", "lake").stdout == "Deleted connector lake\n"
    assert len(run("connector", "list").stdout.splitlines()) == 1
    assert len(run("table", "list").stdout.splitlines()) == 3


def test_names_with_dots_are_quoted_as_in_sql(lake: Path) -> None:
    writable_copy("kernel-rs/table-with-dv-small", lake / "sales.db" / 'a"b c')
    (lake / "orders").rename(lake / "sales.db" / "orders")
    location = f"{lake.as_uri()}/sales.db"
    made = run("connector", "create", "lake", location, "--namespace", 'lake."sales.db"')
    assert made.stdout.endswith('; its tables go to namespace "lake:sales.db"\n')
    scanned = run("connector", "scan", "lake").stdout.splitlines()
    assert scanned[0].startswith('registered "lake:sales.db"."a""b c" at ')
    assert scanned[1] == f'registered "lake:sales.db".orders at {location}/orders'
    refreshed = run("table", "refresh", 'lake."sales.db".orders')
    assert refreshed.stdout == '"lake:sales.db".orders is at version 1\n'
    refreshed = run("table", "refresh", '"lake:sales.db"."a""b c"')
    assert refreshed.stdout == '"lake:sales.db"."a""b c" is at version 1\n'
    assert run("table", "list").stdout.count('"lake:sales.db".') == 2
    assert '"lake:sales.db"' in run("connector", "list", "--wide").stdout
    again = run("table", "register-delta", '"x.y".orders', f"{location}/orders")
    assert again.stdout.startswith('Created namespace "x.y"\nRegistered "x.y".orders at ')


def test_a_connector_of_a_place_that_is_not_there(lake: Path) -> None:
    place = f"{lake.as_uri()}/misspelt"
    made = run("connector", "create", "lake", place)
    assert made.returncode == 0
    problem = f"There is nothing to search: {place} is not a folder, or is empty"
    assert made.stderr == f"A scan will find nothing: {problem}\n"
    scanned = run("connector", "scan", "lake")
    assert scanned.returncode == 1
    assert scanned.stdout.splitlines() == [
        f"failed     {place}: {problem}",
        "0 registered, 0 known before, 1 failed; 1 folder searched",
    ]
    assert problem in run("connector", "list", "--wide").stdout
    assert re.search(rf"{place}  yes +1 failed, t…\n", run("connector", "list").stdout)


def test_a_kind_that_is_no_connector_is_named(lake: Path) -> None:
    kind = "json:JSONDecoder"
    made = run("connector", "create", "q", lake.as_uri(), "--kind", kind, FLOECAT_CONNECTORS_KINDS=kind)
    assert one_error(made, 2) == f"floecat.connectors.kinds: {kind} is not a connector: it has no discover()"


@pytest.mark.parametrize(
    ("name", "setting"),
    [
        ("up --no-dagster", "floecat.storage.allowed-locations"),
        ("serve", "floecat.storage.allowed-locations"),
        ("table list", "floecat.storage.allowed-locations"),
        ("db upgrade", "floecat.gateway.default-warehouse-path"),
        ("catalog list", "floecat.gateway.delta-compat.location"),
    ],
)
def test_a_malformed_location_names_its_setting(name: str, setting: str) -> None:
    variable = setting.replace(".", "_").replace("-", "_").upper()
    message = one_error(run(*name.split(), **{variable: "rel"}), 2)
    assert message == f"{setting}: Invalid location 'rel': must be an absolute URI or path"
    assert not Path(".floecat").exists()


def test_what_is_written_has_no_url_marks_in_its_name(tmp_path: Path) -> None:
    """Folders that are only read may have them."""
    marked = f"file://{tmp_path}/a?b#c"
    message = one_error(run("catalog", "list", FLOECAT_GATEWAY_DELTA_COMPAT_LOCATION=marked), 2)
    assert message == (
        "floecat.gateway.delta-compat.location: Invalid location: must not carry a query or a fragment"
    )
    assert run("db", "upgrade", FLOECAT_STORAGE_ALLOWED_LOCATIONS=marked).returncode == 0


def test_a_scan_with_failures_says_so(lake: Path) -> None:
    assert run("connector", "create", "lake", lake.as_uri()).returncode == 0
    assert run("connector", "scan", "lake").returncode == 0
    writable_copy("kernel-rs/table-without-dv-small", lake / "eu" / "orders")
    assert run("connector", "create", "eu", f"{lake.as_uri()}/eu", "--namespace", "lake").returncode == 0
    failed = run("connector", "scan", "eu")
    assert failed.returncode == 1
    assert failed.stdout.splitlines() == [
        f"failed     lake.orders at {lake.as_uri()}/eu/orders: Table already exists: lake.orders",
        "0 registered, 0 known before, 1 failed; 2 folders searched",
    ]


@pytest.mark.parametrize(("number", "workers"), [(signal.SIGTERM, "1"), (signal.SIGINT, "2")])
def test_serve_until_a_signal(number: signal.Signals, workers: str) -> None:
    port = free_port()
    assert run("db", "upgrade", "--data-dir", "data").returncode == 0
    with running("serve", "--rest-port", str(port), "--data-dir", "data", "--workers", workers) as process:
        wait_until_ready(process, port)
        config = msgspec.json.decode(get(port, "/v1/config?warehouse=floecat"))
        assert config["defaults"]["prefix"] == "floecat"
        assert get(port, "/health/live")
        output = stop(process, number)
    assert process.returncode == 0, output
    assert "Traceback" not in output
    assert is_free(port)


def test_up_without_dagster_until_a_signal() -> None:
    port = free_port()
    with running("up", "--no-dagster", "--rest-port", str(port)) as process:
        lines = iter(process.stdout or ())
        seen = []
        for line in lines:
            seen.append(line)
            if "Ctrl-C" in line:
                break
        assert f"http://127.0.0.1:{port}" in "".join(seen)
        namespaces = msgspec.json.decode(get(port, "/v1/floecat/namespaces"))["namespaces"]
        assert namespaces == [["demo"]]
        process.send_signal(signal.SIGINT)
        assert "Stopped." in "".join(lines)
        assert process.wait(60) == 0
    assert is_free(port)


def test_demo_data_is_written_once() -> None:
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    assert run("db", "upgrade").returncode == 0
    with running("serve", "--rest-port", str(port)) as process:
        wait_until_ready(process, port)
        assert run("demo", "--url", url).returncode == 0
        trips = "/v1/floecat/namespaces/demo/tables/trips"
        first = msgspec.json.decode(get(port, trips))["metadata"]
        assert run("demo", "--url", url).returncode == 0
        metadata = msgspec.json.decode(get(port, trips))["metadata"]
        # only statistics may have been added since
        assert metadata["table-uuid"] == first["table-uuid"]
        assert metadata["snapshots"] == first["snapshots"]
        assert [snapshot["summary"]["operation"] for snapshot in metadata["snapshots"]][:3] == ["append"] * 3
        assert set(metadata["refs"]) == {"main", "first-day"}
        assert len(metadata["partition-specs"][0]["fields"]) == 1
        tables = msgspec.json.decode(get(port, "/v1/floecat/namespaces/demo/tables"))["identifiers"]
        assert {table["name"] for table in tables} == {"cities", "stations", "trips"}
        catalog = load_catalog("floecat", type="rest", uri=url, warehouse="floecat")
        stations = catalog.load_table("demo.stations")
        assert (len(stations.history()), stations.scan().to_arrow().num_rows) == (2, 12)
        views = msgspec.json.decode(get(port, "/v1/floecat/namespaces/demo/views"))["identifiers"]
        assert {view["name"] for view in views} == {"trips_by_city"}
        view = msgspec.json.decode(get(port, "/v1/floecat/namespaces/demo/views/trips_by_city"))
        assert view["metadata"]["versions"][0]["default-catalog"] == "floecat"
        assert get(port, "/v1/floecat/namespaces/demo%1Farchive/tables/months")


def test_purges_are_listed_shown_cancelled_and_watched(lake: Path) -> None:
    run("table", "register-delta", "ns.orders", (lake / "orders").as_uri())
    settings = load_settings()
    with kernel(settings) as opened:
        gateway = settings.gateway
        call = opened.catalog.calls.open(
            Principal("anna", gateway.default_account_id), gateway.default_prefix
        )
        opened.purge.drops.drop(call, TableIdentifier(("ns",), "orders"), purge=True)
        (made,) = opened.purge.operations.list(call)
    purge_id = str(made.id)
    wanted = ("--table", "floecat.ns.orders", "--state", "QUEUED")
    (line,) = run("purge", "list", *wanted, "--wide").stdout.splitlines()[1:]
    assert line.split()[:6] == [purge_id, "ns.orders", "queued", "0/5", "0", "0"]
    assert run("purge", "list", "--state", "failed", "--json").stdout == ""
    assert "not one of queued, waiting, running" in one_error(run("purge", "list", "--state", "gone"), 2)
    assert "is cancelled" in run("purge", "cancel", purge_id).stdout
    assert "it is cancelled" in one_error(run("purge", "cancel", purge_id), 1)
    assert "is due now" in run("purge", "retry", purge_id).stdout
    with kernel(settings) as opened:
        opened.purge.queue.drain_once()
    lines = run("purge", "watch", purge_id, "--json").stdout.splitlines()
    assert msgspec.json.decode(lines[-1])["state"] == "succeeded"
    assert run("purge", "watch").stdout.startswith("No purge is open")
    shown = run("purge", "show", purge_id).stdout
    assert made.metadata_location in shown
    assert "succeeded" in shown
    other = str(uuid.uuid4())
    assert one_error(run("purge", "show", other), 1) == f"Job does not exist: {other}"


def test_demo_data_needs_a_service() -> None:
    url = f"http://127.0.0.1:{free_port()}"
    message = one_error(run("demo", "--url", url), 1)
    assert message == f"demo data could not be written through {url}: Connection refused"
    message = one_error(run("demo", "--url", "nonsense"), 2)
    assert message == "Invalid --url: 'nonsense', expected one such as http://127.0.0.1:9200"


def test_demo_data_needs_a_token_where_a_login_is_required() -> None:
    class Handler(QuietHandler):
        def do_GET(self) -> None:
            refusal = {"message": "no", "type": "NotAuthorizedException", "code": 401}
            self.send_response(401)
            self.end_headers()
            self.wfile.write(msgspec.json.encode({"error": refusal}))

    with serving(Handler) as url:
        message = one_error(run("demo", "--url", url), 1)
        assert message == f"{url} requires a login: a bearer token is needed, by --token or FLOECAT_TOKEN"
        assert "NotAuthorizedException: no" in one_error(run("demo", "--url", url, "--token", "a.b.c"), 1)


def test_jobs_are_listed_cancelled_and_retried(lake: Path) -> None:
    run("table", "register-delta", "ns.orders", (lake / "orders").as_uri())
    settings = load_settings()
    with kernel(settings) as opened:
        gateway = settings.gateway
        call = opened.catalog.calls.open(
            Principal("anna", gateway.default_account_id), gateway.default_prefix
        )
        opened.purge.drops.drop(call, TableIdentifier(("ns",), "orders"), purge=True)
        (job,) = opened.jobs.list(call)

    def listed(*arguments: str) -> list[list[str]]:
        return [line.split()[:5] for line in run("job", "list", "--wide", *arguments).stdout.splitlines()[1:]]

    assert listed() == [[str(job.id), "purge", "ns.orders", "queued", "0/5"]]
    assert listed("--kind", "connector-scan") == listed("--state", "failed") == []
    for option, known in (
        ("kind", "connector-scan; did you mean purge?"),
        ("state", "queued, waiting, running, cancelling, succeeded, failed, cancelled"),
    ):
        unknown = one_error(run("job", "list", f"--{option}", "purged"), 2)
        assert unknown.startswith(f"Invalid {option}: 'purged' is not one of ")
        assert unknown.endswith(known)
    assert listed("--state", "Queued", "--kind", "PURGE", "--table", "ns.orders") == listed()
    shown = [line.split() for line in run("job", "show", str(job.id)).stdout.splitlines()]
    for expected in (["kind", "purge"], ["state", "queued"], ["attempts", "0", "of", "5"], ["problem", "-"]):
        assert expected in shown
    (described,) = objects("job", "show", str(job.id))
    assert [described] == objects("job", "list")
    assert (described["subject"], described["lane"]) == (job.subject, job.lane)
    assert "cannot be retried: it is queued" in one_error(run("job", "retry", str(job.id)), 1)
    assert run("job", "cancel", str(job.id)).stdout == f"Job {job.id} (purge of ns.orders) is cancelled\n"
    assert "cannot be cancelled: it is cancelled" in one_error(run("job", "cancel", str(job.id)), 1)
    assert [row[3] for row in listed("--state", "cancelled")] == ["cancelled"]
    assert run("job", "retry", str(job.id)).stdout == f"Job {job.id} (purge of ns.orders) is due now\n"
    for group, command, state in (
        ("job", "cancel", "cancelled"),
        ("purge", "retry", "queued"),
        ("purge", "cancel", "cancelled"),
        ("job", "retry", "queued"),
    ):
        assert [each["state"] for each in objects(group, command, str(job.id))] == [state]
    assert [row[3] for row in listed()] == ["queued"]
    assert listed("--entry", "ns.orders") == listed()
    with kernel(settings) as opened:
        opened.purge.queue.drain_once()
    watched = run("job", "watch", str(job.id))
    assert (watched.returncode, watched.stdout.count("\n")) == (0, 1)
    assert watched.stdout.startswith(f"{job.id} ns.orders succeeded; 6 found, 6 deleted, ")
    assert run("job", "watch").stdout.startswith("No job is open")
    other = str(uuid.uuid4())
    for command in ("retry", "show"):
        assert one_error(run("job", command, other), 1) == f"Job does not exist: {other}"


def test_statistics_are_captured_and_shown(lake: Path) -> None:
    assert run("table", "register-delta", "up:ns.orders", (lake / "orders").as_uri()).returncode == 0
    assert run("table", "refresh", "up:ns.orders").returncode == 0
    none = run("table", "statistics", "up:ns.orders")
    assert "Nothing is known of snapshot 1: run floecat capture now up:ns.orders" in none.stdout
    made = json.loads(run("capture", "now", "up:ns.orders", "--json").stdout)
    assert (made["state"], made["files"], made["done"]) == ("succeeded", 1, 1)
    shown = run("table", "statistics", "up:ns.orders").stdout
    assert "up:ns.orders, snapshot 1: 8 rows, 1 files" in shown
    assert ["value", "int", "0", "8", "1", "8", "4", "B"] in [line.split() for line in shown.splitlines()]
    assert (
        len(run("table", "statistics", "up:ns.orders", "--kind", "file", "--json").stdout.splitlines()) == 1
    )
    files = run("table", "statistics", "up:ns.orders", "--kind", "file").stdout.splitlines()
    assert files[1].split()[1:3] == ["parquet", "8"]
    assert (
        "capture policy up:ns.orders"
        in run("table", "statistics", "up:ns.orders", "--kind", "expression").stdout
    )
    assert ["publish", "recent", "settings"] in [
        line.split() for line in run("capture", "policy").stdout.splitlines()
    ]
    (captured,) = json.loads(f"[{run('capture', 'snapshots', 'up:ns.orders', '--json').stdout}]")
    assert (captured["status"], captured["coverage"]["captured"]) == ("finalized", 1)
    assert "Snapshot 1 has no index artifacts" in run("table", "index-artifacts", "up:ns.orders").stdout
    assert run("capture", "watch").stdout.startswith("No capture is open")
    assert run("table", "constraints", "up:ns.orders", "--json").stdout.startswith('{"snapshot-id":1')
    waiting = json.loads(run("capture", "now", "up:ns.orders", "--wait", "0", "--json").stdout)["id"]
    assert waiting in run("capture", "list", "--state", "queued").stdout
    assert "queued" in run("capture", "show", waiting).stdout
    assert run("capture", "cancel", waiting).stdout == f"Capture {waiting} of up:ns.orders is cancelled\n"
    watched = run("capture", "watch", waiting, "--json")
    assert (watched.returncode, json.loads(watched.stdout)["state"]) == (0, "cancelled")
    backfilled = run("capture", "backfill", "up:ns.orders", "--json").stdout.splitlines()
    assert [json.loads(line)["snapshot-id"] for line in backfilled] == [0]


def test_access_from_the_command_line(tmp_path: Path) -> None:
    assert run("db", "upgrade").returncode == 0
    assert run("role", "create", "marketing").stdout == "Created role marketing\n"
    assert run("role", "create", "marketing").returncode == 1
    assert "is a member" in run("role", "add", "marketing", "group:m").stdout
    assert "Granted use_catalog" in run("access", "grant", "use_catalog", "catalog", "role:marketing").stdout
    assert run("access", "explain", "eve", "use_catalog", "catalog", "--group", "m").returncode == 0
    assert run("access", "explain", "eve", "use_catalog", "catalog").returncode == 1
    assert "group:m in role:marketing  use_catalog" in run("access", "who", "catalog").stdout
    shown = run("role", "show", "marketing").stdout
    assert "members: group:m\n" in shown
    assert re.search(r"^use_catalog  catalog floecat  operator", shown, re.MULTILINE)
    assert json.loads(run("role", "show", "marketing", "--json").stdout)["members"] == ["group:m"]
    assert run("principal", "disable", "eve").stdout == "Disabled principal eve\n"
    assert re.search(r"^eve +disabled", run("principal", "list").stdout, re.MULTILINE)
    assert run("principal", "show", "eve").stdout.startswith("state: disabled\nroles: -\n")
    assert run("principal", "delete", "eve").stdout == "Deleted principal eve\n"
    assert (run("principal", "show", "eve").returncode, run("role", "show", "none").returncode) == (1, 1)
    assert run("role", "create-built-in").stdout.startswith("create role operator\n")
    assert run("role", "create-built-in").stdout == "All are there\n"
    file = tmp_path / "access.yaml"
    file.write_text(run("access", "export").stdout)
    unchanged = run("access", "diff", str(file))
    assert (unchanged.returncode, unchanged.stdout) == (0, "Nothing to do\n")
    file.write_text(file.read_text().replace("group:m", "group:n"))
    told = "remove group:m from role marketing\nadd group:n to role marketing\n"
    assert run("access", "apply", "--dry-run", str(file)).stdout == told
    changed = run("access", "diff", str(file))
    assert (changed.returncode, changed.stdout) == (1, told)
    assert run("access", "apply", str(file)).stdout == told
    assert run("access", "apply", str(file)).stdout == "Nothing to do\n"
    assert "add group:n to role marketing" in run("access", "history", "--limit", "1").stdout
    file.write_text("grants:\n- {thing: 'table:floecat.a.b', grantee: role:none, privileges: [read_table]}\n")
    refused = run("access", "apply", str(file))
    assert refused.returncode == 2
    assert refused.stderr == "error: There is no role none\nerror: There is no table a.b of catalog floecat\n"
    assert "cannot be read" in run("access", "apply", str(tmp_path / "none")).stderr


def test_roles_of_an_account_without_catalogs() -> None:
    assert run("db", "upgrade").returncode == 0
    account = json.loads(run("account", "create", "new", "--json").stdout)["id"]
    assert run("role", "create", "team", "--account", account).returncode == 0
    assert "team" in run("role", "list", "--account", "new").stdout
    assert "team" not in run("role", "list").stdout
    assert "- name: team" in run("access", "export", "--account", account).stdout
    granted = run("access", "grant", "create_catalog", "account", "role:team", "--account", "new")
    assert granted.stdout == "Granted create_catalog on the account to role:team\n"
    nowhere = run(
        "access", "grant", "read_table", "catalog", "role:team", "--catalog", "x", "--account", "new"
    )
    assert (nowhere.returncode, nowhere.stderr) == (1, "error: There is no catalog x\n")
    missing = run("role", "create", "team", "--account", str(uuid.uuid4()))
    assert (missing.returncode, "Account does not exist" in missing.stderr) == (1, True)
