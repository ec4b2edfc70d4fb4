"""The file of `floecat access export` and `apply`: YAML, in which every value is a text.

Values are never taken for other things than texts, as YAML takes `no` for false; nothing in a file can make
more of it than its bytes, as aliases would.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

import msgspec
import yaml

from floecat.auth.authorizer import Privilege
from floecat.catalog.declared_access import DeclaredAccess, DeclaredCatalog, DeclaredRole
from floecat.errors import BadRequestError
from floecat_rest.management.access_wire import parse_privilege, parse_securable, written_securable

__all__ = ["read_access_file", "write_access_file"]

T = TypeVar("T")
K = TypeVar("K")

_Loader: Any = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
_Dumper: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
_DEEPEST = 8


class _Entry(msgspec.Struct, rename="kebab", forbid_unknown_fields=True, omit_defaults=True):
    pass


class _Catalog(_Entry):
    name: str
    storage_location: str
    allowed_locations: tuple[str, ...] = ()


class _Role(_Entry):
    name: str
    owner: str | None = None
    members: tuple[str, ...] = ()


class _Grant(_Entry):
    thing: str
    grantee: str
    privileges: tuple[str, ...]


class _Owner(_Entry):
    thing: str
    owner: str


class _File(_Entry):
    catalogs: tuple[_Catalog, ...] | None = None
    roles: tuple[_Role, ...] | None = None
    grants: tuple[_Grant, ...] | None = None
    owners: tuple[_Owner, ...] | None = None


def read_access_file(data: bytes, most_bytes: int) -> DeclaredAccess:
    """Reads a file.

    Raises:
        BadRequestError: it is too large, no YAML of this form, names something twice, or has malformed names
            or unknown privileges.
    """
    if len(data) > most_bytes:
        raise BadRequestError(f"The file has more than {most_bytes} bytes (floecat.limits.access-file-bytes)")
    try:
        found = msgspec.convert(_value(_node(data.decode())), _File)
    except UnicodeDecodeError:
        raise BadRequestError("The file is not UTF-8") from None
    except (yaml.YAMLError, msgspec.ValidationError) as error:
        raise BadRequestError(f"Invalid file: {error}") from None
    return DeclaredAccess(
        _by(
            found.catalogs,
            lambda each: each.name,
            lambda each: DeclaredCatalog(each.storage_location, each.allowed_locations),
        ),
        _by(
            found.roles,
            lambda each: each.name,
            lambda each: DeclaredRole(frozenset(each.members), each.owner),
        ),
        _by(
            found.grants,
            lambda each: (each.grantee, parse_securable(each.thing)),
            lambda each: _privileges(each.privileges),
        ),
        _by(found.owners, lambda each: parse_securable(each.thing), lambda each: each.owner),
    )


def write_access_file(found: DeclaredAccess) -> str:
    """Writes what `read_access_file` reads, sorted."""
    file = _File(
        tuple(
            _Catalog(name, each.storage_location, each.allowed_locations)
            for name, each in sorted((found.catalogs or {}).items())
        ),
        tuple(
            _Role(name, each.owner, tuple(sorted(each.members)))
            for name, each in sorted((found.roles or {}).items())
        ),
        tuple(
            _Grant(
                thing, grantee, ("all",) if len(privileges) == len(Privilege) else tuple(sorted(privileges))
            )
            for thing, grantee, privileges in sorted(
                (written_securable(on), grantee, privileges)
                for (grantee, on), privileges in (found.grants or {}).items()
            )
        ),
        tuple(
            _Owner(*each)
            for each in sorted((written_securable(on), owner) for on, owner in (found.owners or {}).items())
        ),
    )
    written: str = yaml.dump(
        msgspec.to_builtins(file), Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=1 << 20
    )
    return written


def _node(text: str) -> yaml.Node | None:
    depth = 0
    for event in yaml.parse(text, Loader=_Loader):
        if isinstance(event, yaml.AliasEvent):
            raise BadRequestError(
                f"Invalid file: aliases are not read, as {event.anchor}{_place(event.start_mark)}"
            )
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > _DEEPEST:
            raise BadRequestError(f"Invalid file: more than {_DEEPEST} levels{_place(event.start_mark)}")
    return yaml.compose(text, Loader=_Loader)


def _value(node: yaml.Node | None) -> object:
    if node is None:
        return {}
    if isinstance(node, yaml.SequenceNode):
        return [_value(each) for each in node.value]
    if not isinstance(node, yaml.MappingNode):
        return node.value
    found: dict[object, object] = {}
    for key, value in node.value:
        if not isinstance(key, yaml.ScalarNode):
            raise BadRequestError(f"Invalid file: a key must be a text{_place(key.start_mark)}")
        if key.value in found:
            raise BadRequestError(f"Invalid file: {key.value} is there twice{_place(key.start_mark)}")
        found[key.value] = _value(value)
    return found


def _place(mark: Any) -> str:
    return "" if mark is None else f", in line {mark.line + 1}"


def _by(
    entries: Iterable[Any] | None, key: Callable[[Any], K], value: Callable[[Any], T]
) -> Mapping[K, T] | None:
    if entries is None:
        return None
    found: dict[K, T] = {}
    for each in entries:
        made = key(each)
        if made in found:
            raise BadRequestError(f"Invalid file: twice: {msgspec.json.encode(each).decode()[:500]}")
        found[made] = value(each)
    return found


def _privileges(names: Iterable[str]) -> frozenset[str]:
    return frozenset(
        each for name in names for each in (Privilege if name == "all" else (parse_privilege(name),))
    )
