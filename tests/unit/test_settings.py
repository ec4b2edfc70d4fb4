"""Settings: sources and their order, what is refused and how it is said, what is never shown."""

from __future__ import annotations

from pathlib import Path
from uuid import UUID

import pytest

from floecat.errors import SettingsError
from floecat.settings import (
    CatalogAccessSettings,
    Duration,
    S3Settings,
    Settings,
    describe,
    dump,
    load_settings,
)


def write_config(folder: Path, text: str) -> Path:
    path = folder / "floecat.toml"
    path.write_text(text, encoding="utf-8")
    return path


def refusal(**sources: object) -> str:
    with pytest.raises(SettingsError) as caught:
        load_settings(**{"environ": {}, **sources})  # type: ignore[arg-type]
    return caught.value.message


@pytest.fixture(autouse=True)
def empty_working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_defaults_are_those_of_the_structs() -> None:
    assert load_settings(environ={}) == Settings()


def test_seed_names_and_defaults() -> None:
    rows = {row.key: row.default for row in describe()}
    assert rows["floecat.gateway.default-account-id"] == "5eaa9cd5-7d08-3750-9457-cfe800b0b9d2"
    assert rows["floecat.gateway.plan-task-ttl"] == "PT10M"
    # 128 in the seed: tasks are divided by their bytes
    assert rows["floecat.gateway.plan-task-files-per-task"] == "10000"
    assert rows["floecat.gateway.idempotency-key-lifetime"] == "PT30M"
    assert rows["floecat.gateway.stage-ttl-seconds"] == "900"
    confirm = "floecat.gateway.commit.confirm"
    assert [rows[f"{confirm}.{name}"] for name in ("max-attempts", "initial-sleep-ms", "max-sleep-ms")] == [
        "6",
        "25",
        "200",
    ]


def test_delta_tables_are_read_only() -> None:
    assert load_settings(environ={"FLOECAT_GATEWAY_DELTA_COMPAT_READ_ONLY": "true"}) == Settings()
    message = refusal(environ={"FLOECAT_GATEWAY_DELTA_COMPAT_READ_ONLY": "false"})
    assert message.startswith("floecat.gateway.delta-compat.read-only=false: Delta tables can only be read")


def test_settings_of_delta_tables() -> None:
    given = {
        "REFRESH_AFTER": "PT0S",
        "LOCATION": "s3://bucket/compat",
        "POSITION_DELETE_FORMAT": "avro",
        "FORMAT_VERSION": "3",
        "MISSING_STATISTICS": "leave-out",
        "MAX_FILES_IN_REQUEST": "0",
    }
    environ = {f"FLOECAT_GATEWAY_DELTA_COMPAT_{name}": value for name, value in given.items()}
    settings = load_settings(environ=environ).gateway.delta_compat
    assert settings.refresh_after == Duration(0)
    assert settings.location == "s3://bucket/compat"
    assert (settings.position_delete_format, settings.format_version) == ("avro", 3)
    assert (settings.missing_statistics, settings.max_files_in_request) == ("leave-out", 0)
    for name, wrong in {"FORMAT_VERSION": "1", "POSITION_DELETE_FORMAT": "orc", "WAIT": "20"}.items():
        message = refusal(environ={f"FLOECAT_GATEWAY_DELTA_COMPAT_{name}": wrong})
        assert "floecat.gateway.delta-compat" in message


@pytest.mark.parametrize(
    "text",
    [
        "floecat.gateway.rest-port = 9300",
        "[floecat.gateway]\nrest-port = 9300",
        "[gateway]\nrest-port = 9300",
        "gateway = { rest-port = 9300 }",
    ],
)
def test_file_takes_every_way_to_write_a_table(tmp_path: Path, text: str) -> None:
    assert load_settings(config=write_config(tmp_path, text), environ={}).gateway.rest_port == 9300


def test_each_source_beats_the_one_before(tmp_path: Path) -> None:
    file = write_config(tmp_path, '[gateway]\nhost = "127.0.0.2"\nrest-port = 1\nworkers = 2\nthreads = 3')
    settings = load_settings(
        config=file,
        environ={"FLOECAT_GATEWAY_REST_PORT": "2", "FLOECAT_GATEWAY_WORKERS": "4"},
        overrides={"floecat.gateway.workers": 8},
    ).gateway
    assert (settings.host, settings.rest_port, settings.workers, settings.threads) == ("127.0.0.2", 2, 8, 3)


def test_file_is_found_in_the_working_folder_or_by_variable(tmp_path: Path) -> None:
    write_config(tmp_path, 'data-dir = "here"')
    other = tmp_path / "other.toml"
    other.write_text('data-dir = "there"', encoding="utf-8")
    assert load_settings(environ={}).data_dir == "here"
    assert load_settings(environ={"FLOECAT_CONFIG": str(other)}).data_dir == "there"
    assert (
        load_settings(config=tmp_path / "floecat.toml", environ={"FLOECAT_CONFIG": str(other)}).data_dir
        == "here"
    )


def test_values_of_every_kind_from_file_and_environment(tmp_path: Path) -> None:
    file = write_config(
        tmp_path,
        """
        [floecat.gateway]
        verify-metadata-file = true
        plan-task-ttl = "PT1H30M"
        max-request-body-bytes = "1MiB"
        [floecat.storage]
        allowed-locations = ["s3://a", "file:///b"]
        """,
    )
    settings = load_settings(
        config=file,
        environ={
            "FLOECAT_GATEWAY_DEFAULT_ACCOUNT_ID": "00000000-0000-7000-8000-000000000001",
            "FLOECAT_GATEWAY_MAX_METADATA_FILE_BYTES": "1024",
            "FLOECAT_STORAGE_FSYNC": "FALSE",
            "FLOECAT_STORAGE_AWS_S3_PATH_STYLE_ACCESS": "true",
        },
    )
    assert settings.gateway.verify_metadata_file is True
    assert settings.gateway.plan_task_ttl == Duration(5_400_000)
    assert settings.gateway.max_request_body_bytes == 1 << 20
    assert settings.gateway.max_metadata_file_bytes == 1024
    assert settings.gateway.default_account_id == UUID("00000000-0000-7000-8000-000000000001")
    assert settings.storage.allowed_locations == ("s3://a", "file:///b")
    assert settings.storage.fsync is False
    assert settings.storage.aws.s3.path_style_access is True


def test_list_in_the_environment_is_separated_by_commas() -> None:
    settings = load_settings(environ={"FLOECAT_STORAGE_ALLOWED_LOCATIONS": "s3://a, s3://b/c"})
    assert settings.storage.allowed_locations == ("s3://a", "s3://b/c")


@pytest.mark.parametrize(
    "text",
    [
        '[floecat.spark.conf]\n"spark.executor.memory" = "4g"\n"spark.executor.cores" = 2\n"spark.x" = true',
        "[spark.conf.spark]\nexecutor = { memory = '4g', cores = 2 }\nx = true",
        "spark.conf = { 'spark.executor' = { memory = '4g', cores = 2 }, spark.x = true }",
    ],
)
def test_mapping_of_a_file_is_one_value(tmp_path: Path, text: str) -> None:
    spark = load_settings(config=write_config(tmp_path, text), environ={}).spark
    assert spark.conf == {"spark.executor.memory": "4g", "spark.executor.cores": "2", "spark.x": "true"}


def test_mapping_in_the_environment_is_a_json_object() -> None:
    environ = {"FLOECAT_SPARK_MASTER": "local[2]", "FLOECAT_SPARK_CONF": '{"spark.a": "b,c"}'}
    spark = load_settings(environ=environ).spark
    assert (spark.master, spark.remote, spark.conf) == ("local[2]", None, {"spark.a": "b,c"})
    assert load_settings(environ={}).spark.conf == {}


@pytest.mark.parametrize("text", ["a=hunter2", "[]", '"hunter2"', '{"a": ["hunter2"]}', '{"a": null}'])
def test_what_is_no_mapping_is_refused_unseen(text: str) -> None:
    message = refusal(environ={"FLOECAT_SPARK_CONF": text})
    assert message.startswith("floecat.spark.conf (FLOECAT_SPARK_CONF): expected a table of texts")
    assert "hunter2" not in message


def test_spark_is_in_one_place() -> None:
    given = {"FLOECAT_SPARK_MASTER": "local", "FLOECAT_SPARK_REMOTE": "sc://host"}
    assert "floecat.spark.remote" in refusal(environ=given)


def test_seed_alias_of_the_authorization_header(tmp_path: Path) -> None:
    file = write_config(tmp_path, 'floecat.gateway.authHeader = "x-token"')
    assert load_settings(config=file, environ={}).gateway.auth_header == "x-token"
    assert load_settings(environ={"FLOECAT_GATEWAY_AUTHHEADER": "x-token"}).gateway.auth_header == "x-token"


def test_floors_raise_what_is_below_them() -> None:
    settings = load_settings(
        environ={"FLOECAT_GATEWAY_STAGE_TTL_SECONDS": "5", "FLOECAT_GATEWAY_PLAN_TASK_TTL": "PT1S"}
    )
    assert settings.gateway.stage_ttl_seconds == 60
    assert settings.gateway.plan_task_ttl == Duration(60_000)


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("FLOECAT_GATEWAY_PLAN_TASK_TLL", "; did you mean FLOECAT_GATEWAY_PLAN_TASK_TTL?"),
        ("FLOECAT_GATWAY_REST_PORT", "; did you mean FLOECAT_GATEWAY_REST_PORT?"),
        ("FLOECAT_STORE_URI", "; did you mean FLOECAT_STORE_URL?"),
        ("FLOECAT_AUTH_MODE", "; did you mean FLOECAT_GATEWAY_AUTH_MODE?"),
        ("FLOECAT_SERVER_AUTH_MODE", "; did you mean FLOECAT_GATEWAY_AUTH_MODE?"),
        ("FLOECAT_OIDC_AUTH_MODE", "; did you mean FLOECAT_GATEWAY_AUTH_MODE?"),
        ("FLOECAT_ISSUER", "; did you mean FLOECAT_OIDC_ISSUER?"),
        ("FLOECAT_S3_ENDPOINT", "; did you mean FLOECAT_STORAGE_AWS_S3_ENDPOINT?"),
        ("FLOECAT_STORAGE_S3_ENDPOINT", "; did you mean FLOECAT_STORAGE_AWS_S3_ENDPOINT?"),
        (
            "FLOECAT_WORKERS",
            "; did you mean FLOECAT_GATEWAY_WORKERS or FLOECAT_PLANNING_WORKERS "
            "or FLOECAT_STATISTICS_WORKERS?",
        ),
    ],
)
def test_misspelt_variable_is_refused(name: str, near: str) -> None:
    assert refusal(environ={name: "secret-value"}) == f"{name}: no such setting{near}"


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("FLOECAT_LOG_ZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZ", ""),
        ("FLOECAT_BACKUP_HOST", "; did you mean FLOECAT_GATEWAY_HOST?"),
        ("FLOECAT_GATEWAY_URL", "; did you mean FLOECAT_GATEWAY_DAGSTER_URL?"),
        ("FLOECAT_STORE", "; did you mean FLOECAT_STORE_URL?"),
        ("FLOECAT_XYZ", ""),
    ],
)
def test_unrelated_variable_is_warned_of_once(name: str, near: str, caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(2):
        assert load_settings(environ={name: "secret-value"}) == Settings()
    assert caplog.messages == [f"{name} is no setting and is ignored{near}"]


@pytest.mark.parametrize("service", ["FLOECAT", "FLOECAT_GATEWAY", "FLOECAT_GATEWAY_REST", "FLOECAT_STORE"])
def test_variables_that_kubernetes_sets_for_a_service_are_ignored(service: str) -> None:
    links = {
        "SERVICE_HOST": "10.0.0.1",
        "SERVICE_PORT": "9200",
        "SERVICE_PORT_HTTP": "9200",
        "PORT": "tcp://10.0.0.1:9200",
        "PORT_9200_TCP": "tcp://10.0.0.1:9200",
        "PORT_9200_TCP_PROTO": "tcp",
        "PORT_9200_TCP_PORT": "9200",
        "PORT_9200_TCP_ADDR": "10.0.0.1",
    }
    environ = {f"{service}_{name}": value for name, value in links.items()}
    assert load_settings(environ=environ) == Settings()


def test_variables_without_the_prefix_are_ignored() -> None:
    assert load_settings(environ={"FLOECATX": "1", "FLOECAT_TOKEN": "t"}) == Settings()


def test_unknown_key_of_a_file_is_refused(tmp_path: Path) -> None:
    file = write_config(tmp_path, "[floecat.gateway]\nrest_port = 1\n[floecat.gateway.host]\nname = 'x'")
    assert refusal(config=file).splitlines() == [
        f"floecat.gateway.rest_port ({file}): no such setting; did you mean floecat.gateway.rest-port?",
        f"floecat.gateway.host.name ({file}): no such setting; did you mean floecat.gateway.host?",
    ]


@pytest.mark.parametrize(
    "text",
    [
        "auth-mode = 'oidc'",
        "[floecat.gatway]",
        "[floecat.gateway.commits]",
        "[storage.catalogs.lake]\nendpoint = 'http://s3'",
        "[storage.catalogs.lake.s3.extra]",
    ],
)
def test_unknown_keys_are_refused_at_every_depth(tmp_path: Path, text: str) -> None:
    assert "no such setting" in refusal(config=write_config(tmp_path, text))


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (
            'gateway.rest-port = "9200"',
            "rest-port {at} an integer from 0 to 65535, got text '9200'",
        ),
        (
            "gateway.rest-port = true",
            "rest-port {at} an integer from 0 to 65535, got a boolean True",
        ),
        (
            "gateway.rest-port = 70000",
            "rest-port {at} an integer from 0 to 65535, got an integer 70000",
        ),
        ("gateway.host = 5", "host {at} text, got an integer 5"),
        ('gateway.host = ""', "host {at} text, got empty text"),
        (
            "gateway.dev-allow-remote = 1",
            "dev-allow-remote {at} true or false, got an integer 1",
        ),
        ('gateway.auth-mode = "none"', "auth-mode {at} one of dev, oidc, got text 'none'"),
        (
            'gateway.plan-task-ttl = "10m"',
            "plan-task-ttl {at} an ISO-8601 duration such as PT30M, got text '10m'",
        ),
        ('gateway.default-account-id = "me"', "default-account-id {at} a UUID, got text 'me'"),
        (
            'gateway.max-request-body-bytes = "64 potatoes"',
            "max-request-body-bytes {at} a number of bytes such as 67108864 or 64MiB, got text '64 potatoes'",
        ),
    ],
)
def test_ill_typed_value_is_refused(tmp_path: Path, text: str, complaint: str) -> None:
    file = write_config(tmp_path, text)
    assert refusal(config=file) == f"floecat.gateway.{complaint.format(at=f'({file}): expected')}"


def test_group_given_as_a_value_is_refused() -> None:
    assert refusal(overrides={"floecat.gateway.commit": 5}) == (
        "floecat.gateway.commit (command line): expected a table, got an integer"
    )


@pytest.mark.parametrize("value", ["1.5", "+1", "1_000", "", "٣", "9" * 5000])
def test_integer_of_the_environment_is_plain_digits(value: str) -> None:
    assert refusal(environ={"FLOECAT_GATEWAY_WORKERS": value}).startswith("floecat.gateway.workers (FLOECAT_")


def test_every_problem_is_told_at_once() -> None:
    message = refusal(
        environ={"FLOECAT_GATEWAY_WORKERS": "x", "FLOECAT_LOG_LEVEL": "loud", "FLOECAT_LOG_JSN": "1"}
    )
    assert len(message.splitlines()) == 3


def test_value_of_a_secret_is_never_in_a_message(tmp_path: Path) -> None:
    file = write_config(tmp_path, "storage.aws.s3.secret-access-key = 12345678")
    assert refusal(config=file).endswith("expected text, got an integer")


def test_setting_given_twice_in_a_file_is_refused(tmp_path: Path) -> None:
    file = write_config(tmp_path, "[floecat.gateway]\nrest-port = 1\n[gateway]\nrest-port = 2")
    assert "given twice" in refusal(config=file)


def test_unreadable_files_are_refused(tmp_path: Path) -> None:
    assert (
        refusal(config=tmp_path / "no.toml")
        == f"cannot read {tmp_path / 'no.toml'}: No such file or directory"
    )
    assert "is not TOML" in refusal(config=write_config(tmp_path, "gateway ="))
    (tmp_path / "floecat.toml").write_bytes(b"\xff\xfe")
    assert refusal() == "cannot read floecat.toml: it is not UTF-8"


def test_secrets_are_hidden_in_representation_and_dump() -> None:
    settings = load_settings(
        environ={
            "FLOECAT_STORE_URL": "postgresql+psycopg://me:hunter2@db/floecat",
            "FLOECAT_STORAGE_AWS_S3_SECRET_ACCESS_KEY": "hunter2",
            "FLOECAT_STORAGE_AWS_S3_SESSION_TOKEN": "hunter2",
            "FLOECAT_SPARK_REMOTE": "sc://host/;token=hunter2",
            "FLOECAT_SPARK_CONF": '{"spark.password": "hunter2"}',
        }
    )
    assert settings.storage.aws.s3.secret_access_key == "hunter2"
    groups = f"{settings.storage.aws.s3!r} {settings.store} {settings.spark!r}"
    shown = f"{settings!r} {settings} {groups} {dump(settings)}"
    assert "hunter2" not in shown
    assert dump(settings)["floecat.store.url"] == "***"
    assert dump(Settings())["floecat.store.url"] == dump(Settings())["floecat.spark.conf"] == ""


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.1.2.3", "catalog.example.com"])
def test_dev_mode_is_refused_where_others_reach_it(host: str) -> None:
    given = {"FLOECAT_GATEWAY_HOST": host}
    assert "floecat.gateway.dev-allow-remote=true" in refusal(environ=given)
    assert load_settings(environ={**given, "FLOECAT_GATEWAY_DEV_ALLOW_REMOTE": "true"}).gateway.host == host
    oidc = {"FLOECAT_GATEWAY_AUTH_MODE": "oidc", "FLOECAT_OIDC_ISSUER": "https://issuer.example.com"}
    assert load_settings(environ={**given, **oidc}).gateway.host == host


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.9.9", "localhost", "::1", "[::1]"])
def test_dev_mode_listens_on_loopback(host: str) -> None:
    assert load_settings(environ={"FLOECAT_GATEWAY_HOST": host}).gateway.host == host


def test_oidc_needs_to_know_whom_to_trust() -> None:
    assert "floecat.oidc.issuer" in refusal(environ={"FLOECAT_GATEWAY_AUTH_MODE": "oidc"})


def test_page_sizes_must_fit() -> None:
    assert "max-page-size" in refusal(environ={"FLOECAT_GATEWAY_MAX_PAGE_SIZE": "10"})


def test_defaults_live_in_the_data_folder(tmp_path: Path) -> None:
    settings = load_settings(environ={"FLOECAT_DATA_DIR": str(tmp_path / "a b")})
    assert settings.store_url == f"sqlite:///{tmp_path}/a%20b/floecat.db"
    assert settings.embedded_store == tmp_path / "a b" / "floecat.db"
    assert settings.warehouse_location == f"file://{tmp_path}/a%20b/warehouse"
    assert load_settings(environ={}).data_path == tmp_path / ".floecat"
    moved = load_settings(environ={"FLOECAT_GATEWAY_DEFAULT_WAREHOUSE_PATH": "s3://bucket/wh"})
    assert moved.warehouse_location == "s3://bucket/wh"


def test_description_of_every_setting() -> None:
    rows = describe()
    assert len({row.key for row in rows}) == len(rows) == len({row.variable for row in rows})
    assert all(row.description.endswith(".") for row in rows)
    assert {row.key: row.variable for row in rows}[
        "floecat.gateway.plan-task-ttl"
    ] == "FLOECAT_GATEWAY_PLAN_TASK_TTL"
    assert {row.key for row in rows if row.secret} == {
        "floecat.auth.opa.token",
        "floecat.store.url",
        "floecat.secrets.keys",
        "floecat.storage.aws.s3.secret-access-key",
        "floecat.storage.aws.s3.session-token",
        "floecat.storage.gcs.service-account-key",
        "floecat.storage.gcs.token",
        "floecat.storage.adls.account-key",
        "floecat.storage.adls.sas-token",
        "floecat.storage.adls.client-secret",
        "floecat.auth.issuers",
        "floecat.connectors.token-commands",
        "floecat.storage.catalogs",
        "floecat.spark.remote",
        "floecat.spark.conf",
        "floecat.purge.properties",
    }


def test_stores_of_single_catalogs(tmp_path: Path) -> None:
    file = tmp_path / "floecat.toml"
    file.write_text(
        """
        [storage.catalogs.lake]
        region = "eu-west-1"
        s3.endpoint = "http://one:9000"
        [storage.catalogs."own.one".s3]
        path-style-access = true
        access-key-id = "a"
        secret-access-key = "hidden"
        [storage.catalogs.google]
        gcs.project-id = "p"
        gcs.token = "hidden"
        """
    )
    settings = load_settings(config=file, environ={})
    lake, own = (settings.storage.catalogs[name] for name in ("lake", "own.one"))
    assert (lake.region, lake.s3.endpoint, lake.s3.path_style_access) == (
        "eu-west-1",
        "http://one:9000",
        False,
    )
    assert own.s3 == S3Settings(path_style_access=True, access_key_id="a", secret_access_key="hidden")
    assert settings.storage.catalogs["google"].gcs.project_id == "p"
    assert "hidden" not in repr(settings)
    assert dump(settings)["floecat.storage.catalogs"] == "***"
    variable = '{"lake": {"s3": {"endpoint": "http://two:9000"}}}'
    settings = load_settings(config=file, environ={"FLOECAT_STORAGE_CATALOGS": variable})
    assert settings.storage.catalogs == {
        "lake": CatalogAccessSettings(s3=S3Settings(endpoint="http://two:9000"))
    }


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            '{"lake": {"s3": {"secret-acces-key": "hidden"}}}',
            "catalogs.lake.s3.secret-acces-key: no such setting",
        ),
        ('{"lake": {"s3": "hidden"}}', "catalogs.lake.s3: no such setting"),
        ('{"lake": {"region": 7}}', "catalogs.lake.region: expected text"),
        ('{"lake": {"s3": {"path-style-access": "hidden"}}}', "path-style-access: expected true or false"),
        ('{"lake": "hidden"}', "catalogs.lake: expected a table"),
        ('["hidden"]', "floecat.storage.catalogs .*: expected tables by name"),
        ("hidden", "floecat.storage.catalogs .*: expected tables by name"),
    ],
)
def test_faults_in_stores_of_single_catalogs(text: str, message: str) -> None:
    with pytest.raises(SettingsError, match=message) as caught:
        load_settings(environ={"FLOECAT_STORAGE_CATALOGS": text})
    assert "hidden" not in str(caught.value)


def test_dump_can_be_read_back() -> None:
    variables = {row.key: row.variable for row in describe()}
    written = {variables[key]: value for key, value in dump(Settings()).items() if value}
    assert load_settings(environ=written) == Settings()


@pytest.mark.parametrize(
    ("text", "ms", "shortest"),
    [
        ("PT30M", 1_800_000, "PT30M"),
        ("PT0.25S", 250, "PT0.25S"),
        ("P1DT12H", 129_600_000, "PT36H"),
        ("PT90S", 90_000, "PT1M30S"),
        ("PT0S", 0, "PT0S"),
        ("P2D", 172_800_000, "PT48H"),
    ],
)
def test_durations(text: str, ms: int, shortest: str) -> None:
    assert Duration.parse(text) == Duration(ms)
    assert str(Duration(ms)) == shortest
    assert Duration(ms).seconds == ms / 1000


@pytest.mark.parametrize(
    "text", ["", "P", "PT", "P1DT", "30M", "PT-1S", "P1Y", "PT1.5M", "PT1S ", "PT1.0001S", "pt1s"]
)
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(ValueError, match="ISO-8601"):
        Duration.parse(text)
