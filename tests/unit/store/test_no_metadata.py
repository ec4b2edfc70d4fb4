from floecat.store.no_metadata import has_metadata, no_metadata_location


def test_entries_without_metadata_are_told_by_their_metadata_location() -> None:
    assert not has_metadata(no_metadata_location("s3://lake/d/metadata"))
    assert has_metadata("s3://lake/d/metadata/3-compat-0011.metadata.json")
    assert has_metadata("s3://lake/d/metadata/not-unread.metadata.json")
