"""The files of `deploy/` are well formed and fit together and the product."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import compose_spec
import kubernetes_validate
import msgspec
import pytest
import yaml
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from floecat.settings import load_settings
from floecat_rest.http import request_log
from floecat_rest.management.job_metrics import StoreGauges
from floecat_rest.process import process_metrics
from tests.engines.keycloak.keycloak_server import REALM_FILE, RELEASE
from tests.engines.pages import blocks

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
KUBERNETES = DEPLOY / "kubernetes"
KUBERNETES_VERSION = "1.37.0"


def checked(*command: str) -> None:
    completed = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert completed.returncode == 0, completed.stdout + completed.stderr


def manifests() -> Iterator[dict[str, Any]]:
    for path in sorted(KUBERNETES.rglob("*.yaml")):
        for document in yaml.safe_load_all(path.read_text()):
            if "apiVersion" in document and document["kind"] != "Kustomization":
                yield document


def templates() -> list[dict[str, Any]]:
    return [m for m in manifests() if "template" in m.get("spec", {})]


def pods() -> dict[str, dict[str, Any]]:
    return {m["metadata"]["name"]: m["spec"]["template"]["spec"] for m in templates()}


def variables(folder: Path) -> dict[str, str]:
    """The secrets of an example."""
    lines = (folder / "secrets.env.example").read_text().splitlines()
    return dict(line.split("=", 1) for line in lines if not line.startswith("#"))


def test_make_installs_extras_that_exist_and_the_readme_lists_them() -> None:
    variables = dict(
        re.findall(r"^(UP_EXTRAS|EXTRAS) := (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    )
    project = msgspec.toml.decode((ROOT / "pyproject.toml").read_bytes())["project"]
    extras = set(project["optional-dependencies"])
    assert set(variables["EXTRAS"].split(",")) == extras
    assert variables["UP_EXTRAS"] == "pipeline,demo"
    table = re.findall(
        r"^\| (`.+?) \| .* MB|^\| (`.+?) \| .* GB", (ROOT / "README.md").read_text(), re.MULTILINE
    )
    assert {name for row in table for name in re.findall(r"`(\w+)`", "".join(row))} == extras


def test_dockerfile() -> None:
    checked(str(Path(sys.executable).with_name("hadolint")), str(DEPLOY / "Dockerfile"))
    last_stage = (DEPLOY / "Dockerfile").read_text().rpartition("FROM ")[2]
    assert "\nUSER 10001" in last_stage
    assert "\nHEALTHCHECK" in last_stage


def test_the_image_gets_every_file_that_the_wheel_is_made_from() -> None:
    project = msgspec.toml.decode((ROOT / "pyproject.toml").read_bytes())
    wheel = project["tool"]["hatch"]["build"]["targets"]["wheel"]
    wanted = {name.split("/")[0] for name in (*wheel["packages"], *wheel["force-include"])}
    wanted |= {project["project"]["readme"], *project["project"]["license-files"], "constraints.txt"}
    kept = {
        line[1:] for line in (DEPLOY / "Dockerfile.dockerignore").read_text().splitlines() if line[:1] == "!"
    }
    copied = set(
        re.findall(r"[\w.]+", " ".join(re.findall(r"^COPY (.*)", (DEPLOY / "Dockerfile").read_text(), re.M)))
    )
    assert wanted <= kept
    assert wanted <= copied


@pytest.mark.parametrize(
    "name", ["compose/compose.yaml", "smoke/trino.yaml", "smoke/polaris.yaml", "smoke/keycloak.yaml"]
)
def test_compose_files(name: str) -> None:
    text = re.sub(r"\$\{(\w+)(?::[-?]([^}]*))?\}", "x", (DEPLOY / name).read_text())
    compose_spec.PyCompose.from_json(json.dumps(yaml.safe_load(text))).validate()


def test_compose_settings_are_accepted() -> None:
    compose = yaml.safe_load((DEPLOY / "compose" / "compose.yaml").read_text())
    logins = yaml.safe_load((DEPLOY / "smoke" / "keycloak.yaml").read_text())["services"]["floecat"][
        "environment"
    ]
    for name in ("upgrade", "floecat", "dagster"):
        environ = compose["services"][name]["environment"]
        assert load_settings(environ=environ).gateway.auth_mode == "dev"
        settings = load_settings(environ=environ | logins)
        assert settings.gateway.auth_mode == "oidc"
        # pages link to each other where a browser finds them
        ports = {each: compose["services"][each]["ports"] for each in ("floecat", "dagster")}
        assert ports["floecat"] == [f"{settings.pipeline.catalog_url}:9200".removeprefix("http://")]
        assert ports["dagster"] == [f"{settings.gateway.dagster_url}:3000".removeprefix("http://")]
        assert settings.pipeline.webserver_url == settings.gateway.dagster_url


def test_kubernetes_manifests() -> None:
    kinds = []
    for manifest in manifests():
        kubernetes_validate.validate(manifest, KUBERNETES_VERSION, strict=True)
        kinds.append(manifest["kind"])
    assert sorted(kinds) == [
        *("Deployment", "Deployment", "Job", "Namespace", "NetworkPolicy", "NetworkPolicy", "NetworkPolicy"),
        *("PodDisruptionBudget", "Service", "Service"),
    ]


def test_kustomizations_name_files_that_exist() -> None:
    for path in KUBERNETES.rglob("kustomization.yaml"):
        kustomization = yaml.safe_load(path.read_text())
        generated = kustomization.get("configMapGenerator", [])
        files = [*kustomization["resources"], *(name for each in generated for name in each["files"])]
        assert [name for name in files if not (path.parent / name).exists()] == []
        resources = {p.name for p in path.parent.glob("*.yaml")} - {"kustomization.yaml", "dagster.yaml"}
        assert resources <= set(files)


def test_pods_are_restricted_and_know_only_their_own_settings() -> None:
    assert set(pods()) == {"floecat", "floecat-dagster", "floecat-upgrade"}
    for pod in pods().values():
        assert pod["enableServiceLinks"] is False
        assert pod["securityContext"]["runAsNonRoot"] is True
        (container,) = pod["containers"]
        assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
        assert container["securityContext"]["readOnlyRootFilesystem"] is True
        mounted = {mount["mountPath"] for mount in container["volumeMounts"] if not mount.get("readOnly")}
        assert mounted >= {"/tmp", "/var/lib/floecat"}
        assert {"name": "FLOECAT_CONFIG", "value": "/etc/floecat/floecat.toml"} in container["env"]
    container = pods()["floecat"]["containers"][0]
    assert container["readinessProbe"]["httpGet"]["path"] == "/health/ready"
    assert container["livenessProbe"]["httpGet"]["path"] == "/health/live"


def test_the_memory_of_the_pod_holds_its_workers() -> None:
    container = pods()["floecat"]["containers"][0]
    limit_bytes = int(container["resources"]["limits"]["memory"].removesuffix("Gi")) << 30
    settings = load_settings(config=KUBERNETES / "base" / "floecat.toml", environ={})
    # docs/operations.md, "Sizing"
    cache_bytes = min(limit_bytes // 4, 1 << 30)
    worker_bytes = cache_bytes + 5 * settings.limits.working_memory_bytes + (150 << 20) + cache_bytes // 2
    assert settings.gateway.workers * worker_bytes + (300 << 20) <= limit_bytes


def test_every_pod_has_a_network_policy() -> None:
    labels = {m["spec"]["template"]["metadata"]["labels"]["app.kubernetes.io/component"] for m in templates()}
    policies = [m["spec"] for m in manifests() if m["kind"] == "NetworkPolicy"]
    assert {each["podSelector"]["matchLabels"]["app.kubernetes.io/component"] for each in policies} == labels
    # the port of the service alone, as its pods name it
    (rule,) = [rule for each in policies for rule in each.get("ingress", [])]
    assert rule == {"ports": [{"port": pods()["floecat"]["containers"][0]["ports"][0]["name"]}]}


def test_only_dagster_gets_the_password_of_its_database() -> None:
    given = {name: pod["containers"][0]["envFrom"] for name, pod in pods().items()}
    own = {"secretRef": {"name": "floecat-dagster-secrets"}}
    assert {name for name, secrets in given.items() if own in secrets} == {"floecat-dagster"}
    base = (KUBERNETES / "base" / "secrets.env.example").read_text()
    assert "DAGSTER" not in base
    named = set(re.findall(r"\{env: (\w+)\}", (DEPLOY / "dagster.yaml").read_text()))
    assert named == set(variables(KUBERNETES / "dagster"))


def test_the_service_monitor_selects_the_service() -> None:
    monitor = yaml.safe_load((DEPLOY / "monitoring" / "service-monitor.yaml").read_text())["spec"]
    (service,) = [m for m in manifests() if m["kind"] == "Service" and m["metadata"]["name"] == "floecat"]
    common = yaml.safe_load((KUBERNETES / "base" / "kustomization.yaml").read_text())["labels"][0]["pairs"]
    assert (service["metadata"]["labels"] | common) == monitor["selector"]["matchLabels"]
    # the name of the job that alerts and dashboard ask for
    assert common[monitor["jobLabel"]] == "floecat"
    assert monitor["endpoints"][0]["port"] in {port["name"] for port in service["spec"]["ports"]}


def test_services_find_their_pods() -> None:
    for service in (m for m in manifests() if m["kind"] == "Service"):
        name = service["metadata"]["name"]
        (deployment,) = [
            m for m in manifests() if m["kind"] == "Deployment" and m["metadata"]["name"] == name
        ]
        labels = deployment["spec"]["template"]["metadata"]["labels"]
        assert service["spec"]["selector"].items() <= labels.items()
        ports = {port["name"] for port in pods()[name]["containers"][0]["ports"]}
        assert {port["targetPort"] for port in service["spec"]["ports"]} <= ports


def test_kubernetes_settings_are_accepted() -> None:
    settings = load_settings(
        config=KUBERNETES / "base" / "floecat.toml", environ=variables(KUBERNETES / "base")
    )
    grace_s = pods()["floecat"]["terminationGracePeriodSeconds"]
    assert settings.limits.shutdown_grace.seconds + 5 + 5 <= grace_s
    assert (
        pods()["floecat"]["containers"][0]["readinessProbe"]["timeoutSeconds"] * 1000
        > settings.store.timeout_ms
    )


def test_the_settings_of_dagster_differ_in_storage_only() -> None:
    own, deployed = (yaml.safe_load((folder / "dagster.yaml").read_text()) for folder in (ROOT, DEPLOY))
    assert own.pop("storage").keys() == {"sqlite"}
    assert deployed.pop("storage").keys() == {"postgres"}
    assert own == deployed
    assert (KUBERNETES / "dagster" / "dagster.yaml").read_bytes() == (DEPLOY / "dagster.yaml").read_bytes()


def test_systemd_units(tmp_path: Path) -> None:
    units = sorted((DEPLOY / "systemd").glob("*.service"))
    assert {unit.stem for unit in units} == {"floecat", "floecat-dagster", "floecat-upgrade"}
    program = str(Path(sys.executable).with_name("floecat"))
    for unit in units:
        text = unit.read_text()
        assert "ExecStart=/opt/floecat/bin/floecat " in text
        (page,) = re.findall(r"^Documentation=file:/opt/floecat/(.+)", text, re.MULTILINE)
        assert (ROOT / page).exists()  # deploy/README.md copies the folder
        # the check wants a program that exists
        (tmp_path / unit.name).write_text(text.replace("/opt/floecat/bin/floecat", program))
    checked("systemd-analyze", "verify", "--man=no", *(str(tmp_path / unit.name) for unit in units))


def test_dashboard_and_alerts_use_metrics_that_are_served() -> None:
    assert request_log
    assert process_metrics
    gauges = StoreGauges({("purge", "failed"): 1}, {"purge": 1})
    page = (generate_latest() + generate_latest(gauges)).decode()
    families = list(text_string_to_metric_families(page))
    # samples of what has no labels yet are not on the page, so their names are made up
    served = {"up", *(sample.name for family in families for sample in family.samples)}
    served |= {
        f"{f.name}{end}"
        for f in families
        for end in {"histogram": ["_bucket"], "counter": ["_total"], "gauge": [""]}.get(f.type, [])
    }
    dashboard = json.loads((DEPLOY / "monitoring" / "dashboard.json").read_text())
    rules = yaml.safe_load((DEPLOY / "monitoring" / "alerts.yaml").read_text())["groups"][0]["rules"]
    expressions = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    expressions += [rule["expr"] for rule in rules]
    used = {name for text in expressions for name in re.findall(r"\b((?:floecat|process)_\w+|up)\{", text)}
    assert len(used) >= 8
    assert used <= served
    assert {rule["labels"]["severity"] for rule in rules} == {"critical", "warning"}


def test_smoke_script_is_a_shell_script() -> None:
    checked("sh", "-n", str(DEPLOY / "smoke" / "run.sh"))


def test_realm_of_the_smoke_deployment() -> None:
    gateway = load_settings(environ={}).gateway
    clients = json.loads(REALM_FILE.read_text())["clients"]
    for client in clients:
        claims = {mapper["config"].get("claim.name") for mapper in client["protocolMappers"]}
        assert claims == {gateway.account_claim, None}
    assert clients[0]["protocolMappers"][0]["config"]["claim.value"] == str(gateway.default_account_id)
    keycloak = yaml.safe_load((DEPLOY / "smoke" / "keycloak.yaml").read_text())["services"]["keycloak"]
    assert keycloak["image"] == f"quay.io/keycloak/keycloak:{RELEASE}"


def test_page_on_logins_shows_the_mappers_of_the_realm() -> None:
    shown = [json.loads(block) for block in blocks("../login", "json")]
    clients = json.loads(REALM_FILE.read_text())["clients"]
    assert all(mapper in shown for client in clients for mapper in client["protocolMappers"])
