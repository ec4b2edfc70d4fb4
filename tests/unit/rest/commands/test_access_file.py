"""The file of `floecat access apply`, as people write it and as attackers do."""

from __future__ import annotations

import pytest

from floecat.auth.authorizer import Privilege, Securable
from floecat.catalog.declared_access import DeclaredAccess, DeclaredCatalog, DeclaredRole
from floecat.errors import BadRequestError
from floecat_rest.commands.access.access_file import read_access_file, write_access_file

SIZE = 1 << 20

FILE = """
# what the platform team wants
catalogs:
- name: lake
  storage-location: s3://lake/warehouse
roles:
- name: no
  owner: principal:ada
  members: [group:2026-01-01, 'principal:yes', "role:été"]
- {name: été}
grants:
- thing: namespace:lake.raw."a.b"
  grantee: role:no
  privileges:
  - read_table
  - use_schema
- thing: account
  grantee: group:null
  privileges: [all]
owners:
- thing: table:lake.raw.t
  owner: role:no
"""


def test_every_value_is_a_text() -> None:
    found = read_access_file(FILE.encode(), SIZE)
    assert found == DeclaredAccess(
        {"lake": DeclaredCatalog("s3://lake/warehouse")},
        {
            "no": DeclaredRole(frozenset({"group:2026-01-01", "principal:yes", "role:été"}), "principal:ada"),
            "été": DeclaredRole(),
        },
        {
            ("role:no", Securable("namespace", "lake", ("raw", "a.b"))): frozenset(
                {"read_table", "use_schema"}
            ),
            ("group:null", Securable("account", "")): frozenset(Privilege),
        },
        {Securable("table", "lake", ("raw",), "t"): "role:no"},
    )
    assert read_access_file(write_access_file(found).encode(), SIZE) == found


def test_what_is_left_out_is_left_alone() -> None:
    assert read_access_file(b"", SIZE) == DeclaredAccess()
    assert read_access_file(b"roles: []", SIZE) == DeclaredAccess(roles={})


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (b"\xff", "not UTF-8"),
        (b"roles: [", "Invalid file"),
        (b"- a", "Expected `object`"),
        (b"role: []", "unknown field `role`"),
        (b"roles:\n- name: a\n  memers: []", "unknown field `memers`"),
        (b"roles: {}", "Expected `array . null`"),
        (b"roles:\n- members: []", "missing required field `name`"),
        (b"roles:\n- name: [a]", r"Expected `str`"),
        (b"roles: []\nroles: []", "roles is there twice, in line 2"),
        (b"roles:\n- name: a\n  name: b", "name is there twice, in line 3"),
        (b"roles:\n- name: a\n- name: a", "twice"),
        (b"a: &x []\nroles: *x", "aliases are not read, as x, in line 2"),
        (b"roles: " + b"[" * 9 + b"]" * 9, "more than 8 levels"),
        (b"roles: " + b"[" * 100_000, "Invalid file"),
        (b"roles: []\n---\nroles: []", "Invalid file"),
        (b"? [a]\n: b", "Invalid file"),
        (b"grants:\n- {thing: lake, grantee: role:a, privileges: [read_table]}", "Invalid name of a thing"),
        (b"grants:\n- {thing: account, grantee: role:a, privileges: [fly]}", "no privilege 'fly'"),
        (b"owners:\n- {thing: 'catalog:a\\0', owner: role:a}", None),
        (b"x" * (SIZE + 1), "floecat.limits.access-file-bytes"),
    ],
)
def test_what_is_malformed_is_told(text: bytes, told: str | None) -> None:
    if told is None:
        assert read_access_file(text, SIZE).owners
    else:
        with pytest.raises(BadRequestError, match=told):
            read_access_file(text, SIZE)


def test_tags_make_nothing() -> None:
    tagged = b"roles: !!python/object/apply:os.system [false]"
    with pytest.raises(BadRequestError):
        read_access_file(tagged, SIZE)


def test_aliases_that_would_laugh_a_billion_times_are_refused() -> None:
    lines = ["a: &a [x, x, x, x, x, x, x, x, x]"]
    for outer, inner in zip("bcdefghi", "abcdefgh", strict=True):
        lines.append(f"{outer}: &{outer} [{', '.join([f'*{inner}'] * 9)}]")
    with pytest.raises(BadRequestError, match="aliases"):
        read_access_file("\n".join(lines).encode(), SIZE)
