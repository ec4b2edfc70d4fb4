"""Locations of the files of a snapshot, computed from its id alone.

Generation 0 has the names of the gateway's contract. Files are written once and never changed, so a repair,
another translation, or another entry over the same files begins a later generation, whose number is part of
the names.

Iceberg's entry of a delete file has no field for the id of a Delta deletion vector. So the name of a delete
file ends in a digest of its data file and its vector, in every generation and format version. `vector_digest`
computes it, `vector_digest_of` reads it.
"""

from __future__ import annotations

import re
from hashlib import blake2b

import msgspec

__all__ = [
    "ARTIFACT_FILE",
    "FIELD_ID_COPY",
    "ArtifactPaths",
    "as_uri",
    "generation_of",
    "is_field_id_copy",
    "vector_digest",
    "vector_digest_of",
]

FIELD_ID_COPY = r"compat-df-[0-9a-f]{32}\.parquet"
"""A regular expression for names of copies of data files."""

ARTIFACT_FILE = re.compile(
    r"(?:snap-\d+-compat(?:-g(?P<list>\d+))?\.avro"
    r"|\d+-compat(?:-g(?P<file>\d+))?-(?:m\d+\.avro|d\d+\.avro|pd-[0-9a-f]+\.(?:avro|parquet)|dv-[0-9a-f]+\.puffin)"
    r"|\d+-compat-[0-9a-f]+\.metadata\.json"
    rf"|{FIELD_ID_COPY})"
)
"""Matches the names of all artifacts, and no others."""

_DELETE_FILE = re.compile(r"\d+-compat(?:-g\d+)?-(?:pd|dv)-(?P<vector>[0-9a-f]{32})\.(?:avro|parquet|puffin)")


class ArtifactPaths(msgspec.Struct, frozen=True):
    """Locations of the artifacts of one table.

    Attributes:
        folder: location of the folder that holds them, without a slash at the end.
        generation: see above.
    """

    folder: str
    generation: int = 0

    def manifest_list(self, snapshot_id: int) -> str:
        """The manifest list of a snapshot. It is written last."""
        return f"{self.folder}/snap-{snapshot_id}-compat{self._mark}.avro"

    def data_manifest(self, snapshot_id: int, number: int) -> str:
        """A manifest of data files that the snapshot wrote."""
        return f"{self._of(snapshot_id)}-m{number}.avro"

    def delete_manifest(self, snapshot_id: int, number: int) -> str:
        """A manifest of delete files that the snapshot wrote."""
        return f"{self._of(snapshot_id)}-d{number}.avro"

    def position_deletes(self, snapshot_id: int, data_file: str, vector_id: str, file_format: str) -> str:
        """The position deletes of a data file, equal to its deletion vector.

        Args:
            snapshot_id: the snapshot that brought the vector.
            data_file: location of the data file.
            vector_id: identifies the vector, as `DeletionVector.unique_id`.
            file_format: `parquet` or `avro`.
        """
        return f"{self._of(snapshot_id)}-pd-{vector_digest(data_file, vector_id)}.{file_format}"

    def puffin(self, snapshot_id: int, data_file: str, vector_id: str) -> str:
        """The file with the deletion vector of a data file; arguments as of `position_deletes`."""
        return f"{self._of(snapshot_id)}-dv-{vector_digest(data_file, vector_id)}.puffin"

    def field_id_copy(self, data_file: str) -> str:
        """The copy of a data file with all field ids, shared by all snapshots that hold the file.

        Args:
            data_file: location of the data file.
        """
        return f"{self.folder}/compat-df-{_digest(data_file, str(self.generation))}.parquet"

    def metadata_file(self, snapshot_id: int, document: bytes) -> str:
        """The metadata file of a document, named by a digest of it."""
        digest = blake2b(document, digest_size=8).hexdigest()
        return f"{self.folder}/{snapshot_id}-compat-{digest}.metadata.json"

    def _of(self, snapshot_id: int) -> str:
        return f"{self.folder}/{snapshot_id}-compat{self._mark}"

    @property
    def _mark(self) -> str:
        return f"-g{self.generation}" if self.generation else ""


def generation_of(location: str) -> int:
    """The generation in the name of an artifact; 0 without one."""
    name = ARTIFACT_FILE.fullmatch(location.rpartition("/")[2])
    return int((name["list"] or name["file"] or 0) if name else 0)


def is_field_id_copy(location: str) -> bool:
    """Whether a file is a copy of a data file."""
    return re.fullmatch(FIELD_ID_COPY, location.rpartition("/")[2]) is not None


def vector_digest(data_file: str, vector_id: str) -> str:
    """Identifies a deletion vector of a data file, in hexadecimal; arguments as of `position_deletes`."""
    return _digest(data_file, vector_id)


def vector_digest_of(location: str) -> str | None:
    """The `vector_digest` in the name of a delete file; None if this catalog did not write the file."""
    name = _DELETE_FILE.fullmatch(location.rpartition("/")[2])
    return name["vector"] if name else None


def _digest(data_file: str, which: str) -> str:
    return blake2b(f"{as_uri(data_file)}|{which}".encode(), digest_size=16).hexdigest()


def as_uri(location: str) -> str:
    """A location as a URI, also if it is spelled as a path."""
    return f"file://{location}" if location.startswith("/") else location
