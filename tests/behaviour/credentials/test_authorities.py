"""Authorities are created, changed and deleted; their secrets are read by their keys alone."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from typing import Any
from uuid import uuid4

import msgspec
import pytest

from floecat.auth.actors import Actor
from floecat.auth.authorizer import AllowAll, Check, Privilege
from floecat.auth.principals import Principal
from floecat.catalog.catalog_directory import CatalogDirectory, NewCatalog
from floecat.credentials.authorities import AdlsMethod, GcsMethod, StorageAuthority
from floecat.credentials.authority_rules import BorrowedPower
from floecat.credentials.authority_service import AuthorityUpdate
from floecat.credentials.keys import AuthorityError
from floecat.errors import (
    AlreadyExistsError,
    BadRequestError,
    ConflictError,
    ForbiddenError,
    NotFoundError,
    SettingsError,
)
from floecat.fileio.locations import normalize_location
from floecat.runtime import Kernel, open_kernel
from floecat.settings import AuthoritySettings, SecretSettings, Settings, StorageSettings
from floecat.store.access import grants
from floecat.store.catalogs import storage_authorities
from tests.behaviour.credentials.conftest import ENDPOINT, KEYS, ROLE, SECRET, method, wanted

GOOGLE = '{"type":"service_account","client_email":"a@b","private_key":"hunter2-zebra"}'


def history(kernel: Kernel, actor: Actor) -> list[str]:
    with kernel.store.read() as conn:
        return [each.change for each in grants.history(conn, actor.account_id, 1 << 60, 1000)]


def version(kernel: Kernel, actor: Actor) -> int:
    with kernel.store.read() as conn:
        return grants.history(conn, actor.account_id, 1 << 60, 1)[0].access_version


def known(kernel: Kernel, actor: Actor) -> tuple[StorageAuthority, ...]:
    """Those that requests know after the last change."""
    return kernel.credentials.known.of(actor.account_id, version(kernel, actor))


def test_an_authority_comes_changes_and_goes_with_the_next_request(kernel: Kernel, actor: Actor) -> None:
    service = kernel.credentials.authorities
    made = service.create(actor, wanted(prefix="s3a://lake/tables/"))
    assert (made.name, str(made.prefix), made.method, made.enabled) == (
        *("lake", "s3://lake/tables", method()),
        True,
    )
    assert known(kernel, actor) == (made,) == tuple(service.page(actor).items)
    assert service.get(actor, "lake") == made
    assert kernel.credentials.secrets.of(made) == {"secret-access-key": SECRET}
    changed = service.update(
        actor,
        "lake",
        AuthorityUpdate("pond", "s3://pond", method(duration_s=900), {"secret-access-key": "n"}, False),
    )
    assert known(kernel, actor) == (changed,)
    assert (changed.name, str(changed.prefix), changed.enabled, changed.version) == (
        "pond",
        "s3://pond",
        False,
        2,
    )
    assert kernel.credentials.secrets.of(changed) == {"secret-access-key": "n"}
    service.delete(actor, "pond")
    assert known(kernel, actor) == ()
    for call in (lambda: service.get(actor, "pond"), lambda: service.delete(actor, "pond")):
        with pytest.raises(NotFoundError, match="There is no storage authority pond"):
            call()
    assert history(kernel, actor) == [
        "delete storage authority pond",
        "change storage authority lake: name=pond, prefix=s3://pond, enabled=False, duration-s=900,"
        " new secret-access-key",
        "create storage authority lake for s3://lake/tables",
    ]


def test_what_is_not_said_stays(kernel: Kernel, actor: Actor) -> None:
    service = kernel.credentials.authorities
    made = service.create(actor, wanted())
    assert service.update(actor, "lake", AuthorityUpdate()).encrypted_secrets == made.encrypted_secrets
    moved = service.update(actor, "lake", AuthorityUpdate(prefix="s3://lake/other"))
    assert kernel.credentials.secrets.of(moved) == {"secret-access-key": SECRET}
    assert moved.method == made.method
    borrowed = method(keys_of="service", access_key_id=None, role_arn=ROLE)
    lent = service.update(actor, "lake", AuthorityUpdate(method=borrowed))
    assert (lent.encrypted_secrets, kernel.credentials.secrets.of(lent)) == (None, {})
    with pytest.raises(BadRequestError, match="the secret secret-access-key is missing"):
        service.update(actor, "lake", AuthorityUpdate(method=method()))


def test_a_prefix_has_one_authority_that_is_enabled(kernel: Kernel, actor: Actor) -> None:
    service = kernel.credentials.authorities
    service.create(actor, wanted())
    with pytest.raises(AlreadyExistsError, match="Storage authority already exists: lake"):
        service.create(actor, wanted(prefix="s3://lake/other"))
    with pytest.raises(AlreadyExistsError, match="lake is enabled for s3://lake/tables already"):
        service.create(actor, wanted(name="two"))
    service.create(actor, wanted(name="two", enabled=False))
    with pytest.raises(AlreadyExistsError, match="is enabled"):
        service.update(actor, "two", AuthorityUpdate(enabled=True))
    with pytest.raises(AlreadyExistsError, match="already exists: lake"):
        service.update(actor, "two", AuthorityUpdate(name="lake"))
    service.update(actor, "lake", AuthorityUpdate(enabled=False))
    service.update(actor, "two", AuthorityUpdate(enabled=True))
    assert [(each.name, each.enabled) for each in known(kernel, actor)] == [("lake", False), ("two", True)]


def test_another_account_neither_sees_nor_uses_them(kernel: Kernel, actor: Actor) -> None:
    service = kernel.credentials.authorities
    service.create(actor, wanted())
    account = kernel.access.accounts.create("other")
    other = Actor(Principal("bob", account.id), AllowAll())
    assert service.page(other).items == []
    for change in (
        lambda: service.get(other, "lake"),
        lambda: service.update(other, "lake", AuthorityUpdate(enabled=False)),
        lambda: service.delete(other, "lake"),
    ):
        with pytest.raises(NotFoundError):
            change()
    service.create(other, wanted())
    with pytest.raises(ConflictError, match=r"not empty .*authorities: 1"):
        kernel.access.accounts.delete("other")
    service.delete(other, "lake")


@pytest.mark.parametrize(
    ("message", "changes"),
    [
        ("Invalid name", {"name": "a b"}),
        ("Invalid name", {"name": ""}),
        ("absolute URI", {"prefix": "lake"}),
        ("the prefix of kind s3 is a location of s3://", {"prefix": "gs://lake"}),
        ("the prefix of kind s3", {"prefix": "file:///tmp"}),
        ("region is malformed", {"method": method(region="evil.example/")}),
        ("role-arn is malformed", {"method": method(role_arn="role")}),
        ("external-id is malformed", {"method": method(external_id="a b")}),
        ("duration-s is from 900 to 43200", {"method": method(duration_s=899)}),
        ("endpoint must be a URL", {"method": method(endpoint="lake:9000")}),
        ("sts-endpoint must be a URL", {"method": method(sts_endpoint="file:///etc/passwd")}),
        ("needs path-style-access", {"method": method(endpoint="http://10.0.0.1")}),
        ("needs access-key-id", {"method": method(access_key_id=None)}),
        ("needs role-arn", {"method": method(keys_of="web-identity", role_arn=None)}),
        ("sse-type is malformed", {"method": method(sse_type="aes")}),
        ("sse-key is of sse-type kms", {"method": method(sse_key="arn:key")}),
        ("the secret secret-access-key is missing", {"secrets": {}}),
        ("the secret secret-access-key is missing", {"secrets": {"secret-access-key": "***"}}),
        ("the secret secret-access-key is malformed", {"secrets": {"secret-access-key": "hunter2-zebra\n"}}),
        ("has no secret 'account-key', but secret-access-key", {"secrets": {"account-key": SECRET}}),
        ("has no secret 'secret-access-key'$", {"method": method(keys_of="service", role_arn=ROLE)}),
        ("kind adls is a location of abfss://", {"method": AdlsMethod()}),
        (
            "a service principal needs tenant-id and client-id",
            {"method": AdlsMethod(client_id="x"), "prefix": "abfss://c@a.dfs.core.windows.net/t"},
        ),
        ("web-identity is of kind s3", {"method": GcsMethod(keys_of="web-identity"), "prefix": "gs://b"}),
        (
            "service-account-key is the JSON of the key of a service account",
            {"method": GcsMethod(), "prefix": "gs://b", "secrets": {"service-account-key": SECRET}},
        ),
        (
            "service-account-key is the JSON",
            {
                "method": GcsMethod(),
                "prefix": "gs://b",
                "secrets": {"service-account-key": GOOGLE.replace("service_account", "external_account")},
            },
        ),
    ],
)
def test_what_cannot_be_meant_is_refused(
    kernel: Kernel, actor: Actor, message: str, changes: dict[str, Any]
) -> None:
    with pytest.raises(BadRequestError, match=message) as raised:
        kernel.credentials.authorities.create(actor, wanted(**changes), anywhere=True)
    assert "zebra" not in raised.value.message
    assert kernel.credentials.authorities.page(actor).items == []


AZURE = {"prefix": "abfss://c@a.dfs.core.windows.net/t", "secrets": {"account-key": "a2V5"}}
BORROWED = [
    ("keys-of service needs a role that floecat", {"method": method(keys_of="service"), "secrets": {}}),
    (
        "keys-of web-identity needs a role",
        {"method": method(keys_of="web-identity"), "secrets": {}},
    ),
    (
        "keys-of service needs a role",
        {"method": GcsMethod(keys_of="service"), "prefix": "gs://b", "secrets": {}},
    ),
    ("^endpoint is none of floecat", {"method": method(endpoint="http://elsewhere:9000")}),
    ("sts-endpoint is none of", {"method": method(sts_endpoint="http://169.254.169.254")}),
    ("login-endpoint is none of", {**AZURE, "method": AdlsMethod(login_endpoint="http://elsewhere")}),
    (
        "The domain of abfss://.* is none of Azure",
        {**AZURE, "method": AdlsMethod(), "prefix": "abfss://c@a.dfs.elsewhere.example/t"},
    ),
]


@pytest.mark.parametrize(("message", "changes"), BORROWED)
def test_over_http_nobody_borrows_what_the_settings_do_not_lend(
    kernel: Kernel, actor: Actor, message: str, changes: dict[str, Any]
) -> None:
    service = kernel.credentials.authorities
    with pytest.raises(ForbiddenError, match=message):
        service.create(actor, wanted(**changes))
    service.create(actor, wanted(**changes), anywhere=True)
    # it may be turned off and on and renamed, and not be led elsewhere
    service.update(actor, "lake", AuthorityUpdate(enabled=False))
    service.update(actor, "lake", AuthorityUpdate(name="two", enabled=True))
    with pytest.raises(ForbiddenError, match=message):
        service.update(actor, "two", AuthorityUpdate(prefix=f"{service.get(actor, 'two').prefix}/other"))


def test_over_http_what_the_settings_lend_is_taken(kernel: Kernel, actor: Actor) -> None:
    service = kernel.credentials.authorities
    service.create(actor, wanted(method=method(endpoint=ENDPOINT + "/")))
    lent = method(keys_of="service", role_arn=ROLE, access_key_id=None)
    service.update(actor, "lake", AuthorityUpdate(method=lent))
    with pytest.raises(ForbiddenError, match=r"^endpoint"):
        service.update(
            actor, "lake", AuthorityUpdate(method=msgspec.structs.replace(lent, endpoint="http://x:1"))
        )


def test_a_role_is_lent_to_one_account(settings: Settings) -> None:
    other = uuid4()
    lent = method(keys_of="service", role_arn=ROLE, access_key_id=None)

    def power(*roles: str) -> BorrowedPower:
        storage = StorageSettings(authorities=AuthoritySettings(roles=roles))
        return BorrowedPower(storage, settings.gateway.default_account_id)

    prefix = normalize_location("s3://lake")
    own = settings.gateway.default_account_id
    for roles, account, others in (([ROLE], own, other), ([f"{other}={ROLE}"], other, own)):
        power(*roles).check(account, prefix, lent)
        with pytest.raises(ForbiddenError, match="lends to this account"):
            power(*roles).check(others, prefix, lent)
    for wrong in ("lent", f"lake={ROLE}", f"{other}=lent", "="):
        with pytest.raises(SettingsError, match=r"floecat\.storage\.authorities\.roles"):
            power(wrong)


def test_an_account_has_a_bounded_number(settings: Settings) -> None:
    limits = msgspec.structs.replace(settings.limits, storage_authorities=1)
    with closing(open_kernel(msgspec.structs.replace(settings, limits=limits))) as kernel:
        actor = Actor(Principal("anna", settings.gateway.default_account_id), AllowAll())
        kernel.credentials.authorities.create(actor, wanted())
        with pytest.raises(ConflictError, match="at most 1 storage authorities"):
            kernel.credentials.authorities.create(actor, wanted(name="two", prefix="s3://lake/two"))


def test_secrets_are_encrypted_anew_and_the_old_key_goes(settings: Settings) -> None:
    actor = Actor(Principal("anna", settings.gateway.default_account_id), AllowAll())

    def run(keys: list[str], work: Callable[[Kernel], Any]) -> Any:
        changed = msgspec.structs.replace(settings, secrets=SecretSettings(keys=tuple(keys)))
        with closing(open_kernel(changed)) as kernel:
            return work(kernel)

    def secrets(kernel: Kernel) -> list[Any]:
        return [dict(kernel.credentials.secrets.of(each)) for each in known(kernel, actor)]

    def make(kernel: Kernel) -> None:
        for name in ("one", "two"):
            kernel.credentials.authorities.create(actor, wanted(name=name, prefix=f"s3://lake/{name}"))

    run(KEYS[:1], make)
    rotated = [KEYS[1], KEYS[0]]
    assert run(rotated, secrets) == [{"secret-access-key": SECRET}] * 2
    before = run(rotated, lambda kernel: known(kernel, actor))
    assert run(rotated, lambda kernel: kernel.credentials.authorities.encrypt_anew()) == (2, [])
    assert run(rotated, lambda kernel: kernel.credentials.authorities.encrypt_anew()) == (0, [])
    after = run([KEYS[1]], lambda kernel: known(kernel, actor))
    assert [each.version for each in after] == [each.version for each in before] == [1, 1]
    assert run([KEYS[1]], secrets) == [{"secret-access-key": SECRET}] * 2

    def lost(kernel: Kernel) -> None:
        authority = known(kernel, actor)[0]
        with pytest.raises(
            AuthorityError, match="Storage authority one makes no keys: its secret was encrypted"
        ):
            kernel.credentials.secrets.of(authority)
        count, messages = kernel.credentials.authorities.encrypt_anew()
        assert count == 0
        assert [each.split(":")[0] for each in messages] == [
            "Storage authority one makes no keys",
            "Storage authority two makes no keys",
        ]
        # it can be changed, turned off, and set again
        kernel.credentials.authorities.update(actor, "one", AuthorityUpdate(method=method(duration_s=900)))
        kernel.credentials.authorities.update(actor, "one", AuthorityUpdate(enabled=False))
        kernel.credentials.authorities.update(
            actor, "one", AuthorityUpdate(secrets={"secret-access-key": "new"})
        )
        assert secrets_of_one(kernel) == {"secret-access-key": "new"}

    def secrets_of_one(kernel: Kernel) -> dict[str, str]:
        return dict(kernel.credentials.secrets.of(kernel.credentials.authorities.get(actor, "one")))

    run([KEYS[2]], lost)


def test_no_row_and_no_representation_has_the_secret(kernel: Kernel, actor: Actor) -> None:
    service = kernel.credentials.authorities
    made = service.create(actor, wanted())
    assert "zebra" not in repr((wanted(), AuthorityUpdate(secrets={"secret-access-key": SECRET}), made))
    with kernel.store.read() as conn:
        assert "zebra" not in repr(storage_authorities.of_account(conn, actor.account_id))
    assert "zebra" not in "".join(history(kernel, actor))


class Only(AllowAll):
    """Everything but one privilege."""

    def __init__(self, missing: Privilege) -> None:
        self.missing = missing

    def allowed(self, _principal: Principal, checks: Any, _found: Any = None, /) -> tuple[bool, ...]:
        return tuple(privilege != self.missing for privilege, _ in list[Check](checks))


def test_privileges_are_asked_for(kernel: Kernel, actor: Actor) -> None:
    service = kernel.credentials.authorities
    service.create(actor, wanted())
    reader = Actor(actor.principal, Only(Privilege.MANAGE_AUTHORITIES))
    for change in (
        lambda: service.create(reader, wanted(name="two")),
        lambda: service.update(reader, "lake", AuthorityUpdate()),
        lambda: service.delete(reader, "lake"),
    ):
        with pytest.raises(ForbiddenError, match="manage_authorities on the account"):
            change()
    assert service.get(reader, "lake").name == "lake"
    stranger = Actor(actor.principal, Only(Privilege.READ_AUTHORITIES))
    for read in (lambda: service.get(stranger, "lake"), lambda: service.page(stranger)):
        with pytest.raises(ForbiddenError, match="read_authorities on the account"):
            read()


def test_a_catalog_gets_locations_of_an_authority_from_who_may_use_it(kernel: Kernel, actor: Actor) -> None:
    kernel.credentials.authorities.create(actor, wanted(enabled=False))
    stranger = Actor(actor.principal, Only(Privilege.USE_AUTHORITY))
    use = kernel.credentials.authorities.check_use
    for near in ("s3://lake", "s3a://lake/tables/", "s3://lake/tables/a"):
        with pytest.raises(ForbiddenError, match="use_authority on the account"):
            use(stranger, ["s3://pond", near])
        use(actor, [near])
    use(stranger, ["s3://pond", "s3://lake/tables2", "gs://lake/tables"])
    # where a catalog is created, and where it gets more
    directory = CatalogDirectory(
        kernel.catalog.catalogs,
        stranger.authorizer,
        kernel.credentials.authorities,
        addable_locations=["s3://lake"],
        most_locations=10,
    )
    for locations in (("s3://lake/tables/a", ()), ("s3://lake/b", ("s3://lake/tables/a",))):
        with pytest.raises(ForbiddenError, match="use_authority"):
            directory.create(stranger.principal, NewCatalog("theirs", *locations))
    call = kernel.catalog.calls.open(actor.principal, "floecat")
    with pytest.raises(ForbiddenError, match="use_authority"):
        kernel.catalog.changes.update(
            msgspec.structs.replace(call, authorizer=stranger.authorizer), add=["s3://lake/tables/a"]
        )
    changed = kernel.catalog.changes.update(call, add=["s3://lake/tables/a"])
    assert changed.allowed_locations == ("s3://lake/tables/a",)
