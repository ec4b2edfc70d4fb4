from __future__ import annotations

import random
import threading
from collections.abc import Container
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from floecat.memory_budget import SHARES, LruCache, MemoryBudget, default_memory_bytes, memory_limit_bytes


def test_the_cache_keeps_what_was_used_last_within_its_budget() -> None:
    cache: LruCache[bytes] = LruCache(100, largest=25)
    for key in range(4):
        cache.put(key, bytes(25), 25)
    assert cache.get(0) is not None
    cache.put("new", bytes(25), 25)
    assert [cache.get(key) is not None for key in (0, 1, 2, 3, "new")] == [True, False, True, True, True]


def test_the_cache_counts_a_replaced_answer_once() -> None:
    cache: LruCache[bytes] = LruCache(100, largest=25)
    for _ in range(10):
        cache.put("same", bytes(25), 25)
    cache.put("other", bytes(25), 25)
    assert cache.get("same") is not None


def test_one_large_answer_does_not_empty_the_cache() -> None:
    cache: LruCache[bytes] = LruCache(100, largest=25)
    cache.put("small", bytes(20), 20)
    cache.put("large", bytes(90), 90)
    assert cache.get("small") is not None
    assert cache.get("large") is None


def test_a_value_that_has_become_too_large_does_not_leave_the_one_before() -> None:
    cache: LruCache[str] = LruCache(100, largest=25)
    cache.put("a", "before", 20)
    cache.put("b", "other", 25)
    cache.put("a", "after", 26)
    assert cache.get("a") is None
    for key in ("c", "d", "e"):
        cache.put(key, key, 25)
    assert cache.get("b") is not None


def test_values_count_one_each_where_no_size_is_given() -> None:
    cache: LruCache[str] = LruCache(2)
    for key in ("a", "b", "c"):
        cache.put(key, key)
    assert [cache.get(key) for key in ("a", "b", "c")] == [None, "b", "c"]


def test_what_is_dropped_leaves_its_room() -> None:
    cache: LruCache[str] = LruCache(2)
    cache.put("a", "a")
    cache.put("b", "b")
    cache.drop("b")
    cache.drop("not there")
    cache.put("c", "c")
    assert [cache.get(key) for key in ("a", "b", "c")] == ["a", None, "c"]


def test_a_smaller_budget_drops_what_was_used_longest_ago() -> None:
    cache: LruCache[str] = LruCache(100)
    for key in range(5):
        cache.put(key, "value", 20)
    assert cache.get(0) == "value"
    cache.resize(40)
    assert [cache.get(key) is not None for key in range(5)] == [True, False, False, False, True]
    assert cache.size == 40
    cache.put("large", "value", 41)
    assert cache.get("large") is None
    cache.resize(100, largest=50)
    cache.put("large", "value", 50)
    assert (cache.get("large"), cache.size) == ("value", 90)


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


class TestMadeOnce:
    @pytest.mark.parametrize(("budget", "times"), [(100, {1}), (1, range(1, 8))])
    def test_one_makes_the_value_while_the_others_wait(self, budget: int, times: Container[int]) -> None:
        cache: LruCache[bytes] = LruCache(budget)
        others_wait = threading.Barrier(8)
        made: list[bytes] = []

        def make() -> bytes:
            asked.wait(120)
            made.append(b"value")
            return made[0]

        asked = threading.Event()
        with ThreadPoolExecutor(8) as threads:

            def ask() -> bytes:
                others_wait.wait(120)
                return cache.get_or_make("key", make, len)

            answers = [threads.submit(ask) for _ in range(8)]
            with pytest.raises(TimeoutError):
                answers[0].result(0.1)
            asked.set()
            assert [answer.result(120) for answer in answers] == [b"value"] * 8
        assert len(made) in times  # a value that is not kept is made again for those who come later

    def test_it_is_kept_with_its_size(self) -> None:
        cache: LruCache[bytes] = LruCache(10)
        assert cache.get_or_make("key", lambda: b"value", len) == b"value"
        assert cache.get_or_make("key", lambda: b"other", len) == b"value"
        assert cache.size == 5

    def test_a_failure_is_not_kept(self) -> None:
        cache: LruCache[int] = LruCache(10)
        with pytest.raises(ZeroDivisionError):
            cache.get_or_make("key", lambda: 1 // 0, int)
        assert cache.get_or_make("key", lambda: 1, int) == 1
