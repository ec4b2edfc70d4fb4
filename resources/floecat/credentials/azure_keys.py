"""Keys of Azure Data Lake Storage: shared access signatures (SAS) for a directory or a container.

They are signed with a key that Azure gives a service principal for a while (user delegation), or with the
key of the storage account.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final
from urllib.parse import quote, urlencode

from floecat.clock import Clock, SystemClock
from floecat.credentials.authorities import AZURE_DOMAINS, AdlsMethod, Secrets, StorageAuthority
from floecat.credentials.keys import AuthorityError, KeyScope, StorageKeys
from floecat.credentials.posts import Poster, PostError
from floecat.credentials.tokens import answer_of, ask_token, read_text
from floecat.errors import BadRequestError
from floecat.fileio.locations import Location
from floecat.fileio.options import AdlsOptions

__all__ = ["AzureKeyMaker"]

_VERSION: Final = "2020-12-06"
"""Of a SAS: it decides what is signed. Clients may speak a later one."""
_LOGIN: Final = "https://login.microsoftonline.com"
_STORAGE: Final = "https://storage.azure.com/"
_METADATA: Final = "http://169.254.169.254"
_SKEW_S: Final = 900
"""How far a clock may be ahead of Azure's."""
_ELEMENT: Final = re.compile(r"<(\w+)>([^<]*)</\1>")
_DELEGATED: Final = {
    "SignedOid": "skoid",
    "SignedTid": "sktid",
    "SignedStart": "skt",
    "SignedExpiry": "ske",
    "SignedService": "sks",
    "SignedVersion": "skv",
}


class AzureKeyMaker:
    """Makes signatures. Thread-safe."""

    def __init__(self, poster: Poster, service: AdlsOptions, clock: Clock | None = None) -> None:
        """Asks for nothing yet.

        Args:
            poster: sends requests; a key takes at most two.
            service: the service's own access, for authorities that use its keys.
            clock: the time.
        """
        self._poster = poster
        self._service = service
        self._clock = clock or SystemClock()

    def make(self, authority: StorageAuthority, secrets: Secrets, scope: KeyScope) -> StorageKeys:
        """See `KeyMaker.make`."""
        method = authority.method
        if not isinstance(method, AdlsMethod):
            raise TypeError(type(method).__name__)
        location = _one(scope, method.hierarchical)
        container, _, host = location.authority.partition("@")
        account = host.partition(".")[0]
        now_s = self._clock.now_ms() // 1000
        expires_at_s = now_s + method.duration_s
        signed = {
            "sp": "racwdl" if scope.may_write else "rl",
            "se": _time(expires_at_s),
            "spr": "https,http" if (method.endpoint or "").startswith("http:") else "https",
            "sv": _VERSION,
            "sr": "c",
        }
        resource = f"/blob/{account}/{container}"
        if method.hierarchical and location.key:
            signed |= {"sr": "d", "sdd": str(location.key.count("/") + 1)}
            resource += location.path
        own = method.keys_of == "own"
        key = secrets.get("account-key") if own else self._service.account_key
        try:
            if key is None:
                endpoint = _endpoint(method, host, account)
                token = self._own_token(method, secrets) if own else self._service_token(method)
                key, delegated = self._delegation(endpoint, token, (now_s - _SKEW_S, expires_at_s))
                signed |= delegated
            signed["sig"] = _signature(key, signed, resource)
        except PostError as error:
            raise AuthorityError(authority, str(error), error.kind) from None
        sas, until = urlencode(signed, quote_via=quote), str(expires_at_s * 1000)
        # the first is for clients that have one account; Java names it by its host, others by its name
        config = {"adls.sas-token": sas}
        for name in (host, account):
            config |= {f"adls.sas-token.{name}": sas, f"adls.sas-token-expires-at-ms.{name}": until}
        return StorageKeys(config, expires_at_s * 1000)

    def _own_token(self, method: AdlsMethod, secrets: Secrets) -> str:
        secret = {"client_secret": secrets.get("client-secret", "")}
        return self._principal_token(method, method.tenant_id, method.client_id, secret)

    def _service_token(self, method: AdlsMethod) -> str:
        given, env = self._service, os.environ
        if given.sas_token is not None:
            raise PostError("the service has a shared access signature, which makes no keys")
        if given.client_secret is not None:
            proof = {"client_secret": given.client_secret}
            return self._principal_token(method, given.tenant_id, given.client_id, proof)
        principal = env.get("AZURE_TENANT_ID"), env.get("AZURE_CLIENT_ID")
        if secret := env.get("AZURE_CLIENT_SECRET"):
            return self._principal_token(method, *principal, {"client_secret": secret})
        if file := env.get("AZURE_FEDERATED_TOKEN_FILE"):
            return self._principal_token(method, *principal, _assertion(file))
        query = {"api-version": "2018-02-01", "resource": _STORAGE}
        if principal[1]:
            query["client_id"] = principal[1]
        host = env.get("AZURE_POD_IDENTITY_AUTHORITY_HOST", _METADATA).rstrip("/")
        url = f"{host}/metadata/identity/oauth2/token?{urlencode(query)}"
        return ask_token(self._poster, url, None, {"Metadata": "true"}).access_token

    def _principal_token(
        self, method: AdlsMethod, tenant: str | None, client: str | None, proof: Mapping[str, str]
    ) -> str:
        login = (method.login_endpoint or os.environ.get("AZURE_AUTHORITY_HOST") or _LOGIN).rstrip("/")
        form = {
            "grant_type": "client_credentials",
            "client_id": client or "",
            "scope": f"{_STORAGE}.default",
            **proof,
        }
        url = f"{login}/{quote(tenant or '', safe='')}/oauth2/v2.0/token"
        return ask_token(self._poster, url, form).access_token

    def _delegation(
        self, endpoint: str, token: str, period_s: tuple[int, int]
    ) -> tuple[str, Mapping[str, str]]:
        start, expiry = map(_time, period_s)
        answer = answer_of(
            self._poster,
            f"{endpoint}/?restype=service&comp=userdelegationkey",
            f"<KeyInfo><Start>{start}</Start><Expiry>{expiry}</Expiry></KeyInfo>".encode(),
            {
                "Authorization": f"Bearer {token}",
                "Content-Type": "application/xml",
                "x-ms-version": _VERSION,
            },
        )
        found = dict(_ELEMENT.findall(answer.decode(errors="replace")))
        try:
            return found["Value"], {short: found[name] for name, short in _DELEGATED.items()}
        except KeyError:
            raise PostError("the answer holds no user delegation key") from None


def _one(scope: KeyScope, hierarchical: bool) -> Location:
    """The location of a SAS: it opens one directory, or one container."""
    first, *others = scope.locations
    if any(hierarchical or each.authority != first.authority for each in others):
        raise BadRequestError("A key of Azure opens one directory or container, and these are more")
    return first


def _endpoint(method: AdlsMethod, host: str, account: str) -> str:
    if method.endpoint:
        return f"{method.endpoint.rstrip('/')}/{account}"
    domain = host.split(".", 2)[2]
    if domain not in AZURE_DOMAINS:
        raise PostError(f"{domain} is no domain of Azure, and it has no endpoint")
    return f"https://{account}.blob.{domain}"


def _assertion(file: str) -> Mapping[str, str]:
    kind = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
    return {"client_assertion": read_text(file), "client_assertion_type": kind}


def _signature(key: str, signed: Mapping[str, str], resource: str) -> str:
    """What Azure documents for its version: lines of parameters, some of which are always empty here."""
    delegated = [*_DELEGATED.values(), "saoid", "suoid", "scid"] if "skoid" in signed else ["si"]
    after = [*delegated, "sip", "spr", "sv", "sr", "snapshot", "ses", "rscc", "rscd", "rsce", "rscl", "rsct"]
    lines = [signed["sp"], "", signed["se"], resource, *(signed.get(name, "") for name in after)]
    try:
        secret = base64.b64decode(key, validate=True)
    except ValueError:
        raise PostError("the key of the account is not Base64") from None
    return base64.b64encode(hmac.digest(secret, "\n".join(lines).encode(), hashlib.sha256)).decode()


def _time(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
