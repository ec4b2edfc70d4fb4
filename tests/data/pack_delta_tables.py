"""Packs a folder of Delta tables as `delta-tables.tar.zst`; the same folder gives the same bytes.

    python tests/data/pack_delta_tables.py SOURCE

SOURCE holds `index.json`, `LICENSES/` and the tables, as the README beside this file says.
"""

from __future__ import annotations

import io
import sys
import tarfile
from pathlib import Path

import zstandard

_TARGET = Path(__file__).parent / "delta-tables.tar.zst"
_LEVEL = 19


def pack(source: Path) -> bytes:
    """The archive of a folder. Times, owners and rights of the files are not kept."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for file in sorted(source.rglob("*")):
            # Large archives go beside this one, each by itself.
            if not file.is_file() or file.suffix == ".zst" or file == source / "README.md":
                continue
            entry = tarfile.TarInfo(str(file.relative_to(source)))
            entry.size = file.stat().st_size
            entry.mode = 0o644
            with file.open("rb") as content:
                archive.addfile(entry, content)
    parameters = zstandard.ZstdCompressionParameters.from_level(_LEVEL, window_log=27, enable_ldm=True)
    return zstandard.ZstdCompressor(compression_params=parameters).compress(packed.getvalue())


if __name__ == "__main__":
    _TARGET.write_bytes(pack(Path(sys.argv[1])))
