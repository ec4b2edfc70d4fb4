"""What must hold between settings."""

from __future__ import annotations

import ipaddress

from floecat.errors import SettingsError
from floecat.settings.groups import Settings

__all__ = ["check_rules", "is_loopback"]


def check_rules(settings: Settings) -> None:
    """Refuse combinations that contradict themselves or are unsafe.

    Raises:
        SettingsError: a rule does not hold.
    """
    gateway, oidc = settings.gateway, settings.oidc
    if gateway.auth_mode == "dev" and not gateway.dev_allow_remote and not is_loopback(gateway.host):
        raise SettingsError(
            f"floecat.gateway.host is {gateway.host!r}, which other machines reach, and auth-mode=dev asks "
            "for no login: set floecat.gateway.auth-mode=oidc, "
            "or floecat.gateway.dev-allow-remote=true if that is meant"
        )
    if gateway.auth_mode == "oidc" and not (oidc.issuer or oidc.jwks_url or oidc.public_key):
        raise SettingsError(
            "floecat.gateway.auth-mode=oidc needs floecat.oidc.issuer, floecat.oidc.jwks-url "
            "or floecat.oidc.public-key"
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


def is_loopback(host: str) -> bool:
    """Whether an address to listen on is reached from this machine only."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
