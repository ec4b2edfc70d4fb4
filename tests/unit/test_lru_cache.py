from __future__ import annotations

from floecat.lru_cache import LruCache


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
