import pytest

from floecat.delta.artifacts.artifact_paths import (
    ARTIFACT_FILE,
    ArtifactPaths,
    is_field_id_copy,
    vector_digest,
    vector_digest_of,
)

FOLDER = "s3://lake/t/metadata"


def test_names_of_the_contract():
    paths = ArtifactPaths(FOLDER)
    assert paths.manifest_list(7) == f"{FOLDER}/snap-7-compat.avro"
    assert paths.data_manifest(7, 0) == f"{FOLDER}/7-compat-m0.avro"
    assert paths.delete_manifest(0, 0) == f"{FOLDER}/0-compat-d0.avro"
    assert paths.position_deletes(7, "s3://lake/t/a", "u1", "parquet").startswith(f"{FOLDER}/7-compat-pd-")
    assert paths.puffin(7, "s3://lake/t/a", "u1").startswith(f"{FOLDER}/7-compat-dv-")


def test_a_later_generation_takes_no_name_of_an_earlier_one():
    first, second = ArtifactPaths(FOLDER), ArtifactPaths(FOLDER, 1)
    names = [
        {
            paths.manifest_list(1),
            paths.data_manifest(1, 0),
            paths.delete_manifest(1, 0),
            paths.position_deletes(1, "f", "v", "avro"),
            paths.puffin(1, "f", "v"),
            paths.field_id_copy("f"),
        }
        for paths in (first, second)
    ]
    assert not names[0] & names[1]


def test_a_vector_has_a_name_of_its_own():
    paths = ArtifactPaths(FOLDER)
    names = {
        paths.position_deletes(1, file, vector, "parquet")
        for file in ("s3://lake/t/a", "s3://lake/t/b")
        for vector in ("u1@1", "u1@40", "u2@1")
    }
    assert len(names) == 6
    assert paths.position_deletes(1, "f", "v", "parquet") == paths.position_deletes(1, "f", "v", "parquet")


@pytest.mark.parametrize("generation", [0, 3])
def test_names_of_delete_files_identify_the_vector(generation):
    paths = ArtifactPaths(FOLDER, generation)
    digest = vector_digest("s3://lake/t/a", "u1@1")
    for location in (
        paths.position_deletes(0, "s3://lake/t/a", "u1@1", "parquet"),
        paths.position_deletes(12, "s3://lake/t/a", "u1@1", "avro"),
        paths.puffin(7, "s3://lake/t/a", "u1@1"),
    ):
        assert vector_digest_of(location) == digest
    assert digest not in {vector_digest("s3://lake/t/a", "u1@40"), vector_digest("s3://lake/t/b", "u1@1")}
    # files of earlier releases name data files by URI
    assert vector_digest("file:///lake/a b", "u1") == vector_digest("/lake/a b", "u1")
    for other in (paths.data_manifest(12, 3), paths.delete_manifest(12, 3), paths.field_id_copy("f")):
        assert vector_digest_of(other) is None
    assert vector_digest_of(f"{FOLDER}/7-compat-pd-{digest[1:]}.parquet") is None


@pytest.mark.parametrize("generation", [0, 3])
def test_every_artifact_is_told_from_other_files(generation):
    paths = ArtifactPaths(FOLDER, generation)
    for location in (
        paths.manifest_list(12),
        paths.data_manifest(12, 3),
        paths.delete_manifest(12, 3),
        paths.position_deletes(12, "f", "v", "parquet"),
        paths.position_deletes(12, "f", "v", "avro"),
        paths.puffin(12, "f", "v"),
        paths.metadata_file(12, b"{}"),
        paths.field_id_copy("f"),
    ):
        assert ARTIFACT_FILE.fullmatch(location.rpartition("/")[2])


@pytest.mark.parametrize(
    "name",
    [
        "part-00000-compat-m0.avro",
        "snap-1-2-3.avro",
        "00001-5f3c.metadata.json",
        "1-compat-m0.avro.bak",
        "x-1-compat-m0.avro",
        "1-compat-m0.parquet",
        "compat-df-00ff.parquet",
        "part-compat-df-0123456789abcdef0123456789abcdef.parquet",
    ],
)
def test_files_of_others_are_none(name):
    assert not ARTIFACT_FILE.fullmatch(name)


def test_the_metadata_file_is_named_by_its_content():
    paths = ArtifactPaths(FOLDER)
    assert paths.metadata_file(1, b"{}") == paths.metadata_file(1, b"{}")
    assert paths.metadata_file(1, b"{}") != paths.metadata_file(1, b"{ }")


def test_copies_of_data_files_are_told_from_other_files():
    paths = ArtifactPaths(FOLDER)
    assert paths.field_id_copy("s3://lake/t/a") != paths.field_id_copy("s3://lake/t/b")
    assert is_field_id_copy(paths.field_id_copy("s3://lake/t/a"))
    assert not is_field_id_copy("s3://lake/t/part-0.parquet")
    assert not is_field_id_copy(paths.position_deletes(1, "s3://lake/t/a", "u1", "parquet"))
