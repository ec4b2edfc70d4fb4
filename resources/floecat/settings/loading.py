"""Reads settings from their sources; refuses what is unknown, of the wrong kind or contradictory."""

from __future__ import annotations

import difflib
import ipaddress
import logging
import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from floecat.errors import SettingsError
from floecat.settings.fields import ROOT, LeafField, SettingsGroup, leaf_fields
from floecat.settings.groups.root import Settings
from floecat.suggestions import did_you_mean, nearest

__all__ = ["CONFIG_VARIABLE", "DEFAULT_FILE", "TOKEN_VARIABLE", "check_rules", "load_settings"]

CONFIG_VARIABLE = "FLOECAT_CONFIG"
"""Environment variable that names the file."""

DEFAULT_FILE = "floecat.toml"
"""File that is read from the working folder if it is there and no other is named."""

TOKEN_VARIABLE = "FLOECAT_TOKEN"  # noqa: S105 - a name
"""Environment variable with the token of commands that are clients of a service."""

_OTHER_VARIABLES = frozenset({CONFIG_VARIABLE, TOKEN_VARIABLE})
_SERVICE_LINK = re.compile(
    r"_SERVICE_HOST$|_SERVICE_PORT(_[A-Z0-9_]+)?$|_PORT_[0-9]+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?$"
)
_LONGEST_SHOWN = 80
_MISSPELT = 0.9
"""Likeness of a variable to a setting that it misspells; others of our prefix may be anybody's."""
_ORIGIN = re.compile(r"https?://[A-Za-z0-9.\[\]:-]+")

_log = logging.getLogger(__name__)

GroupT = TypeVar("GroupT", bound=SettingsGroup)

_GIVEN_KINDS: tuple[tuple[type, str], ...] = (
    (bool, "a boolean"),
    (int, "an integer"),
    (float, "a number"),
    (str, "text"),
    (list, "a list"),
    (tuple, "a list"),
    (dict, "a table"),
)


class _Given(msgspec.Struct, frozen=True):
    """A value as a source gives it."""

    value: object
    source: str
    is_text: bool = False


def load_settings(
    *,
    config: str | os.PathLike[str] | None = None,
    environ: Mapping[str, str] | None = None,
    overrides: Mapping[str, object] | None = None,
) -> Settings:
    """The settings of this process.

    Args:
        config: the file. Default: `FLOECAT_CONFIG`, else `floecat.toml` in the working folder if it is there.
        environ: environment variables. Default: those of the process.
        overrides: values of the command line by key, as `floecat.gateway.rest-port`.

    Raises:
        SettingsError: the file cannot be read, or a setting is unknown, has a value of another kind, or
            contradicts another. The message has one line for each.
    """
    environ = os.environ if environ is None else environ
    problems: list[str] = []
    given: dict[str, _Given] = {}
    given |= _from_file(_config_file(config, environ), problems)
    given |= _from_environment(environ, problems)
    given |= {key: _Given(value, "command line") for key, value in (overrides or {}).items()}
    settings = _build(given, problems)
    if problems:
        raise SettingsError("\n".join(problems))
    check_rules(settings)
    return settings


def check_rules(settings: Settings) -> None:
    """Refuses combinations that contradict themselves or are unsafe.

    Raises:
        SettingsError: a rule does not hold.
    """
    gateway, oidc = settings.gateway, settings.oidc
    if gateway.auth_mode == "dev" and not gateway.dev_allow_remote and not _is_loopback(gateway.host):
        raise SettingsError(
            f"floecat.gateway.host is {gateway.host!r}, which other machines reach, and auth-mode=dev asks "
            "for no login: set floecat.gateway.auth-mode=oidc, "
            "or floecat.gateway.dev-allow-remote=true if that is meant"
        )
    if gateway.auth_mode == "oidc" and not (
        oidc.issuer or oidc.jwks_url or oidc.public_key or settings.auth.issuers
    ):
        raise SettingsError(
            "floecat.gateway.auth-mode=oidc needs floecat.oidc.issuer, floecat.oidc.jwks-url, "
            "floecat.oidc.public-key or floecat.auth.issuers"
        )
    if gateway.cors_allowed_origins and gateway.auth_mode == "dev":
        raise SettingsError(
            "floecat.gateway.cors-allowed-origins needs auth-mode=oidc: without logins, pages of other sites "
            "would have every right"
        )
    for origin in gateway.cors_allowed_origins:
        if not _ORIGIN.fullmatch(origin):
            raise SettingsError(
                f"floecat.gateway.cors-allowed-origins: {origin!r} is not an origin like https://example.com"
            )
    if gateway.default_page_size > gateway.max_page_size:
        raise SettingsError("floecat.gateway.default-page-size is larger than floecat.gateway.max-page-size")
    if settings.spark.master is not None and settings.spark.remote is not None:
        raise SettingsError(
            "floecat.spark.master and floecat.spark.remote are both set: Spark is in one place"
        )
    if not gateway.delta_compat.read_only:
        raise SettingsError(
            "floecat.gateway.delta-compat.read-only=false: Delta tables can only be read here, "
            "write them with Delta and leave the setting out"
        )


def _config_file(config: str | os.PathLike[str] | None, environ: Mapping[str, str]) -> Path | None:
    named = config or environ.get(CONFIG_VARIABLE)
    if named:
        return Path(named)
    default = Path(DEFAULT_FILE)
    return default if default.is_file() else None


def _from_file(path: Path | None, problems: list[str]) -> dict[str, _Given]:
    if path is None:
        return {}
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SettingsError(f"cannot read {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise SettingsError(f"cannot read {path}: it is not UTF-8") from error
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"{path} is not TOML: {error}") from error
    found: dict[str, _Given] = {}
    for key, value in _flatten(document, ()):
        if key in found:
            problems.append(f"{key} ({path}): given twice, with and without the leading {ROOT!r}")
        found[key] = _Given(value, str(path))
    return found


def _flatten(table: Mapping[str, Any], path: tuple[str, ...]) -> Iterator[tuple[str, object]]:
    for name, value in table.items():
        inner = (*path, name)
        key = ".".join(inner if inner[0] == ROOT else (ROOT, *inner))
        if isinstance(value, dict) and value and key not in _table_keys():
            yield from _flatten(value, inner)
        elif value != {} or key not in _group_keys():
            yield key, value


@cache
def _table_keys() -> frozenset[str]:
    return frozenset(field.key for field in leaf_fields(Settings) if field.kind.takes_table)


@cache
def _group_keys() -> frozenset[str]:
    paths = (field.key.split(".") for field in leaf_fields(Settings))
    return frozenset(".".join(path[:length]) for path in paths for length in range(1, len(path)))


def _from_environment(environ: Mapping[str, str], problems: list[str]) -> dict[str, _Given]:
    keys = {_variable(key): field.key for field in leaf_fields(Settings) for key in field.keys}
    found: dict[str, _Given] = {}
    for name, value in environ.items():
        if (
            not name.startswith(f"{ROOT.upper()}_")
            or name in _OTHER_VARIABLES
            or _is_service_link(name, value)
        ):
            continue
        if name in keys:
            found[keys[name]] = _Given(value, name, is_text=True)
        elif meant := _meant(name, keys):
            problems.append(f"{name}: no such setting{did_you_mean(meant)}")
        else:
            _warn_of_variable(name, did_you_mean(nearest(name, keys)))
    return found


def _meant(name: str, keys: Mapping[str, str]) -> list[str]:
    """Variables of settings that a name means: with groups left out, misspelt, or in other groups."""
    return (
        [known for known, key in keys.items() if re.fullmatch(_with_groups_left_out(key), name)]
        or difflib.get_close_matches(name, keys, n=1, cutoff=_MISSPELT)
        or difflib.get_close_matches(
            name, [known for known, key in keys.items() if _ends_as(name, key)], cutoff=0
        )
    )


def _with_groups_left_out(key: str) -> str:
    root, *groups, own = map(_variable, key.split("."))
    return f"{root}_{''.join(f'({group}_)?' for group in groups)}{own}"


def _ends_as(name: str, key: str) -> bool:
    """Whether a variable ends in a setting's own name; one of a single word says too little."""
    own = _variable(key.rpartition(".")[2])
    return "_" in own and name.endswith(f"_{own}")


@cache
def _warn_of_variable(name: str, suggestion: str) -> None:
    _log.warning("%s is no setting and is ignored%s", name, suggestion)


def _variable(key: str) -> str:
    return key.replace(".", "_").replace("-", "_").upper()


def _is_service_link(name: str, value: str) -> bool:
    """Whether Kubernetes set the variable, as it does in every container for each Service of the namespace.

    A Service named `floecat-gateway-rest` would otherwise set the port of the gateway to `tcp://10.0.0.1:80`.
    """
    return _SERVICE_LINK.search(name) is not None or (name.endswith("_PORT") and "://" in value)


def _build(given: Mapping[str, _Given], problems: list[str]) -> Settings:
    fields = {key: field for field in leaf_fields(Settings) for key in field.keys}
    values: dict[tuple[str, ...], object] = {}
    for key, item in given.items():
        field = fields.get(key)
        if field is None:
            problems.append(_unknown(key, item, fields))
            continue
        try:
            values[field.path] = _read(field, item)
        except SettingsError as error:
            problems.append(f"{field.key}.{error.message} ({item.source})")
        except (ValueError, TypeError, KeyError):
            problems.append(_ill_typed(field, item))
    return _replace(Settings(), (), values)


def _read(field: LeafField, item: _Given) -> object:
    if item.is_text:
        return field.kind.from_text(str(item.value))
    return field.kind.from_value(item.value)


def _replace(group: GroupT, path: tuple[str, ...], values: Mapping[tuple[str, ...], object]) -> GroupT:
    changes: dict[str, object] = {}
    for name in group.__struct_fields__:
        current, inner = getattr(group, name), (*path, name)
        if isinstance(current, SettingsGroup):
            changes[name] = _replace(current, inner, values)
        elif inner in values:
            changes[name] = values[inner]
    return msgspec.structs.replace(group, **changes)


def _unknown(key: str, item: _Given, known: Mapping[str, LeafField]) -> str:
    below = any(name.startswith(f"{key}.") for name in known)
    if below:
        return f"{key} ({item.source}): expected a table, got {_given_kind(item.value)}"
    return f"{key} ({item.source}): no such setting{did_you_mean(nearest(key, known))}"


def _ill_typed(field: LeafField, item: _Given) -> str:
    given = _given_kind(item.value)
    if not field.kind.secret and item.value != "" and isinstance(item.value, str | int | float):
        given = f"{given} {_shortened(repr(item.value))}"
    return f"{field.key} ({item.source}): expected {field.kind.expected}, got {given}"


def _given_kind(value: object) -> str:
    if value == "":
        return "empty text"
    return next((name for kind, name in _GIVEN_KINDS if isinstance(value, kind)), type(value).__name__)


def _shortened(shown: str) -> str:
    return shown if len(shown) <= _LONGEST_SHOWN else f"{shown[:_LONGEST_SHOWN]}…"


def _is_loopback(host: str) -> bool:
    """Whether an address to listen on is reached from this machine only."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
