from __future__ import annotations

import pytest

from floecat.delta.log.log_bounds import ROW_BYTES, LogBounds, ReadMeter, TooLargeError
from floecat.errors import UnavailableError, UnsupportedDeltaTableError
from floecat.settings.limits import LimitSettings
from floecat.working_memory import WorkingMemory

MIB = 1 << 20
LIMITS = LimitSettings(delta_log_bytes=1000, delta_log_bytes_in_request=500)


def test_the_defaults() -> None:
    assert LogBounds().decoded_bytes == 16 * 1024 * MIB
    assert LogBounds(in_request=True).decoded_bytes == 256 * MIB
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


def test_vectors_count_as_they_are_decoded_in_a_request() -> None:
    ReadMeter(LogBounds(LIMITS)).add_vectors(1000)
    ReadMeter(LogBounds(LIMITS, in_request=True)).add_vectors(62)
    with pytest.raises(TooLargeError, match=r"floecat\.limits\.delta-log-bytes-in-request"):
        ReadMeter(LogBounds(LIMITS, in_request=True)).add_vectors(63)


def test_schemas_of_all_versions_count_in_a_request() -> None:
    limits = LimitSettings(delta_schema_bytes_in_request=100)
    LogBounds(limits).check_schemas(["x" * 100, "y"])
    LogBounds(limits, in_request=True).check_schemas(["x" * 99, "y"])
    with pytest.raises(TooLargeError, match=r"100 .* \(floecat\.limits\.delta-schema-bytes-in-request\)"):
        LogBounds(limits, in_request=True).check_schemas(["x" * 100, "y"])


def test_a_request_leaves_long_lines() -> None:
    limits = LimitSettings(delta_line_bytes_in_request=100, elements=10)
    data = b"{}\n" + b"x" * 100 + b"\n" + b"1," * 9
    for line in ((3, 103), (104, len(data))):
        assert LogBounds(limits, in_request=True).line(data, *line) == data[slice(*line)]
    with pytest.raises(TooLargeError, match=r"100 .* \(floecat\.limits\.delta-line-bytes-in-request\)"):
        LogBounds(limits, in_request=True).line(data, 3, 104)
    many = b'{"protocol":{"readerFeatures":[' + b"1," * 10 + b"1]}}"
    with pytest.raises(TooLargeError, match=r"10 elements.* \(floecat\.limits\.elements\)"):
        LogBounds(limits, in_request=True).line(many, 0, len(many))
    assert LogBounds(limits).line(data + many, 0, len(data + many)) == data + many


def test_empty_lines_count_as_rows() -> None:
    ReadMeter(LogBounds(LIMITS)).add_lines(b"{}\n" * (1000 // (ROW_BYTES + 3)))
    with pytest.raises(UnsupportedDeltaTableError):
        ReadMeter(LogBounds(LIMITS)).add_lines(b"{}\n" * (1000 // (ROW_BYTES + 3) + 1))


def test_logs_that_are_decoded_at_once_share_the_working_memory() -> None:
    memory = WorkingMemory(8 * MIB, wait_ms=0)
    bounds = LogBounds(LimitSettings(), in_request=True)
    with memory.work():
        ReadMeter(bounds).add(5 * MIB)
        with memory.work(), pytest.raises(UnavailableError, match=r"floecat\.limits\.working-memory-bytes"):
            ReadMeter(bounds).add(3 * MIB + 1)
        with memory.work():
            ReadMeter(bounds).add(3 * MIB)
