from __future__ import annotations

import random
from pathlib import Path

import pytest

from floecat.memory_budget import SHARES, MemoryBudget, default_memory_bytes, memory_limit_bytes

MIB = 1 << 20
GIB = 1 << 30
UNLIMITED_V1 = 0x7FFFFFFFFFFFF000


def groups(root: Path, own: str, limits: dict[str, object]) -> Path:
    """A system whose process is in the groups `own`, with limits by file."""
    files = {"proc/self/cgroup": own, **{f"sys/fs/cgroup/{name}": value for name, value in limits.items()}}
    for name, content in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(f"{content}\n")
    return root


def test_the_shares_are_at_most_the_whole() -> None:
    for total in (0, 1, 1000, 7 * MIB + 3, GIB):
        assert sum(map(MemoryBudget(total).share, SHARES)) <= total
    assert sum(SHARES.values()) == 1024


def test_each_share_grows_with_the_whole() -> None:
    assert {name: MemoryBudget(GIB).share(name) // MIB for name in SHARES} == SHARES
    assert MemoryBudget(4 * GIB).share("documents") == 4 * MemoryBudget(GIB).share("documents")


@pytest.mark.parametrize(
    ("own", "limits", "limit"),
    [
        ("0::/app", {"app/memory.max": 800 * MIB}, 800 * MIB),
        ("0::/a/b", {"a/memory.max": 300 * MIB, "a/b/memory.max": 400 * MIB}, 300 * MIB),
        ("0::/a/b", {"a/memory.max": 500 * MIB, "a/b/memory.max": "max"}, 500 * MIB),
        ("0::/", {"memory.max": 600 * MIB}, 600 * MIB),
        # the path is that of the host, and not mounted
        ("0::/docker/0123", {"memory.max": 700 * MIB}, 700 * MIB),
        ("4:memory:/app\n0::/", {"memory/app/memory.limit_in_bytes": 900 * MIB}, 900 * MIB),
        ("4:cpu,memory:/app", {"memory/app/memory.limit_in_bytes": 200 * MIB}, 200 * MIB),
        ("4:memory:/docker/0123", {"memory/memory.limit_in_bytes": 250 * MIB}, 250 * MIB),
        (
            "4:memory:/a/b",
            {"memory/a/memory.limit_in_bytes": 150 * MIB, "memory/a/b/memory.limit_in_bytes": UNLIMITED_V1},
            150 * MIB,
        ),
    ],
)
def test_the_default_is_a_quarter_of_the_smallest_limit(
    tmp_path: Path, own: str, limits: dict[str, object], limit: int
) -> None:
    root = groups(tmp_path, own, limits)
    assert memory_limit_bytes(root) == limit
    assert default_memory_bytes(root) == limit // 4


@pytest.mark.parametrize(
    ("own", "limits"),
    [
        ("0::/app", {"app/memory.max": "max", "memory.max": "max"}),
        ("4:memory:/app", {"memory/app/memory.limit_in_bytes": UNLIMITED_V1}),
        ("1:name=systemd:/app\n3:cpuset:/", {"memory.max": 5 * MIB, "app/memory.max": 5 * MIB}),
        ("", {}),
    ],
)
def test_without_a_limit_the_machine_counts(tmp_path: Path, own: str, limits: dict[str, object]) -> None:
    none = memory_limit_bytes(tmp_path / "no-such-system")
    assert memory_limit_bytes(groups(tmp_path, own, limits)) == none > 16 * MIB


def test_the_default_is_at_most_a_gibibyte(tmp_path: Path) -> None:
    for name in ("app", "other"):
        root = groups(tmp_path / name, "0::/app", {"app/memory.max": 3 * GIB})
        assert default_memory_bytes(root) == min(memory_limit_bytes(root) // 4, GIB)
    assert default_memory_bytes() <= GIB


@pytest.mark.parametrize("total", [0, 10_000, MIB])
def test_a_cache_never_holds_more_than_its_share(total: int) -> None:
    memory, chance = MemoryBudget(total), random.Random(0)
    caches = {name: memory.cache(name, largest_part=chance.choice([1, 4])) for name in SHARES}
    for _ in range(3000):
        name = chance.choice(list(SHARES))
        caches[name].put(chance.randrange(50), "value", chance.randrange(1, 30_000))
        assert memory.held_bytes()[name] <= memory.share(name)
    assert sum(memory.held_bytes().values()) <= total
    assert total < MIB or all(memory.held_bytes()[name] for name in ("documents", "answers", "gzip-blocks"))
