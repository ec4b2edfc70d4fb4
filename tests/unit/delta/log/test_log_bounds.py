from __future__ import annotations

import pytest

from floecat.delta.log.log_bounds import ROW_BYTES, LogBounds, ReadMeter, TooLargeError
from floecat.errors import UnsupportedDeltaTableError
from floecat.settings.limits import LimitSettings

MIB = 1 << 20
LIMITS = LimitSettings(delta_log_bytes=1000, delta_log_bytes_in_request=500)


def test_the_defaults() -> None:
    assert LogBounds().decoded_bytes == 16 * 1024 * MIB
    assert LogBounds(in_request=True).decoded_bytes == 512 * MIB
    limits = LimitSettings()
    assert (limits.delta_log_files, limits.delta_header_bytes, limits.checkpoint_footer_bytes) == (
        1_000_000,
        16 * MIB,
        16 * MIB,
    )


def test_bytes_of_all_files_count() -> None:
    meter = ReadMeter(LogBounds(LIMITS))
    meter.add(400)
    meter.add(600)
    with pytest.raises(UnsupportedDeltaTableError, match=r"1000 bytes \(floecat\.limits\.delta-log-bytes\)"):
        meter.add(1)


def test_a_request_is_left_to_the_pipeline_earlier() -> None:
    meter = ReadMeter(LogBounds(LIMITS, in_request=True))
    meter.add(500)
    with pytest.raises(TooLargeError, match=r"floecat\.limits\.delta-log-bytes-in-request"):
        meter.add(1)


def test_empty_lines_count_as_rows() -> None:
    ReadMeter(LogBounds(LIMITS)).add_lines(b"{}\n" * (1000 // (ROW_BYTES + 3)))
    with pytest.raises(UnsupportedDeltaTableError):
        ReadMeter(LogBounds(LIMITS)).add_lines(b"{}\n" * (1000 // (ROW_BYTES + 3) + 1))
