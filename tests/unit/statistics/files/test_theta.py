"""Sketches beside those of the C++ library of Apache DataSketches."""

from __future__ import annotations

import datasketches
import numpy as np
import pyarrow as pa
import pytest

from floecat.errors import InvalidMetadataError
from floecat.iceberg.schemas.types import PrimitiveType
from floecat.statistics.files.hashing import hash_values
from floecat.statistics.files.theta import NOMINAL_ENTRIES, SketchBuilder, ThetaSketch, union

_LONG = PrimitiveType("long")


def _sketch(values: np.ndarray, parts: int = 1) -> ThetaSketch:
    builder = SketchBuilder()
    for part in np.array_split(values, parts):
        builder.add(hash_values(pa.array(part, pa.int64()), _LONG))
    return builder.build()


def _reference(count: int) -> datasketches.update_theta_sketch:
    sketch = datasketches.update_theta_sketch(12)
    for value in range(count):
        sketch.update(value)
    return sketch


@pytest.mark.parametrize("count", [0, 1, 2, 4096, 4097, 100_000])
def test_the_library_reads_our_sketches(count: int) -> None:
    sketch = _sketch(np.arange(count))
    read = datasketches.compact_theta_sketch.deserialize(sketch.to_bytes())
    assert read.get_estimate() == pytest.approx(sketch.estimate, rel=1e-12)
    assert read.is_estimation_mode() != sketch.is_exact
    for deviations in (1, 2, 3):
        lower, upper = sketch.bounds(deviations)
        assert lower == pytest.approx(read.get_lower_bound(deviations), abs=2)
        assert upper == pytest.approx(read.get_upper_bound(deviations), abs=2)
    # The same values again change nothing, in the library neither.
    joined = datasketches.theta_union(12)
    joined.update(read)
    joined.update(_reference(count))
    assert joined.get_result().get_estimate() == pytest.approx(sketch.estimate, rel=1e-12)


@pytest.mark.parametrize("count", [0, 1, 2, 100, 5000, 100_000])
@pytest.mark.parametrize("ordered", [True, False])
def test_we_read_the_library_s_sketches(count: int, ordered: bool) -> None:
    theirs = _reference(count).compact(ordered)
    read = ThetaSketch.from_bytes(theirs.serialize())
    assert read.estimate == pytest.approx(theirs.get_estimate(), rel=1e-12)
    again = union([read, _sketch(np.arange(count))])
    assert again.to_bytes() == _sketch(np.arange(count)).to_bytes()


def test_sketches_have_the_bytes_of_java() -> None:
    # CompactSketch.toByteArray of Java, version 6.1.1, for no value, 0, and 0 and 1.
    assert _sketch(np.arange(0)).to_bytes().hex() == "01030300001e0000"
    assert _sketch(np.arange(1)).to_bytes().hex() == "01030300003acc93e56b61eec8804420"
    assert (
        _sketch(np.arange(2)).to_bytes().hex().startswith("02030300001acc93020000000000803f15f97dcbbd86a105")
    )


@pytest.mark.parametrize("values", [np.arange(300_000), np.tile(np.arange(7000), 40)])
def test_order_and_repetition_do_not_matter(values: np.ndarray) -> None:
    whole = _sketch(values).to_bytes()
    shuffled = np.random.default_rng(1).permutation(values)
    assert _sketch(shuffled, parts=17).to_bytes() == whole
    assert union(_sketch(part) for part in np.array_split(shuffled, 5)).to_bytes() == whole
    assert ThetaSketch.from_bytes(whole).to_bytes() == whole
    assert len(whole) == 24 + 8 * NOMINAL_ENTRIES


def test_estimates_are_within_their_bounds() -> None:
    random = np.random.default_rng(20_000)
    errors, misses, far_misses = [], 0, 0
    for _ in range(100):
        count = int(random.integers(5_000, 60_000))
        sketch = _sketch(random.integers(-(2**63), 2**63, count))
        lower, upper = sketch.bounds(3)
        far_misses += not lower <= count <= upper
        lower, upper = sketch.bounds(2)
        misses += not lower <= count <= upper
        errors.append((sketch.estimate / count - 1) / sketch.relative_standard_error)
    # 4.6 and 0.3 are expected.
    assert misses <= 10
    assert far_misses <= 1
    assert 0.75 < np.std(errors) < 1.25


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: data[:7],
        lambda data: data[:-1],
        lambda data: b"\x02" + data[1:],
        lambda data: data[:1] + b"\x04" + data[2:],
        lambda data: data[:5] + bytes([data[5] | 1]) + data[6:],
        lambda data: data[:6] + b"\x00\x00" + data[8:],
        lambda data: data[:8] + b"\xff\xff\xff\x7f" + data[12:],
        lambda data: data[:16] + bytes(8) + data[24:],
        lambda data: data[:24] + b"\xff" * 8 + data[32:],
    ],
)
def test_damaged_sketches_are_refused(damage: object) -> None:
    assert callable(damage)
    with pytest.raises(InvalidMetadataError, match="Cannot read a theta sketch"):
        ThetaSketch.from_bytes(damage(_sketch(np.arange(5000)).to_bytes()))
