from __future__ import annotations

import pytest

from floecat.delta.artifacts.request_bounds import RequestBounds, RequestWork, TooLargeError
from floecat.errors import UnavailableError
from floecat.working_memory import WorkingMemory

MIB = 1 << 20
BOUNDS = RequestBounds(
    opened_files=1,
    deleted_rows=1,
    vector_bytes=1,
    footer_bytes=4 * MIB,
    all_footer_bytes=6 * MIB,
    copied_file_bytes=1,
)


def test_footers_count_one_by_one_and_together() -> None:
    work = RequestWork(BOUNDS)
    work.add_footer("file:///t/a", 4 * MIB)
    with pytest.raises(TooLargeError, match=r"file:///t/b .*floecat\.limits\.data-file-footer-bytes"):
        work.add_footer("file:///t/b", 4 * MIB + 1)
    work.add_footer("file:///t/c", 2 * MIB)
    with pytest.raises(TooLargeError, match=r"floecat\.limits\.footer-bytes-in-request"):
        work.add_footer("file:///t/d", 1)


def test_footers_of_several_requests_share_the_working_memory() -> None:
    memory = WorkingMemory(8 * MIB, wait_ms=0)
    with memory.work():
        RequestWork(BOUNDS).add_footer("file:///t/a", 4 * MIB)
        RequestWork(BOUNDS).add_footer("file:///t/a", 2 * MIB)
        with memory.work():
            other = RequestWork(BOUNDS)
            with pytest.raises(UnavailableError, match=r"floecat\.limits\.working-memory-bytes"):
                other.add_footer("file:///u/a", 3 * MIB)
