"""A representative part of this suite on PostgreSQL and S3; `make test-scale` runs the whole of it there.

The tests are those of the other files: here the fixtures give them another service. Case O24 is here, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest

from tests.contract.client import Catalog, Table
from tests.contract.lakes import BucketLake, Lake
from tests.contract.test_concurrency import (
    test_commits_whose_requirements_hold_never_conflict,
    test_creates_of_a_table_and_a_view_of_one_name,
    test_creates_of_one_namespace,
)
from tests.contract.test_create_table import (
    test_answer_has_location_metadata_and_config,
    test_answer_is_what_a_load_gives,
    test_existing_table_is_409_and_untouched,
    test_format_versions,
    test_in_a_missing_namespace_is_404,
)
from tests.contract.test_etags import (
    source,
    test_tag_gives_304_without_a_body,
    test_tag_is_that_of_the_next_load,
)
from tests.contract.test_idempotency import (
    mutation,
    test_concurrent_duplicates_have_one_effect,
    test_replay_has_the_same_answer_and_no_second_effect,
)
from tests.contract.test_load_table import (
    history,
    test_snapshots_all_is_the_default,
    test_snapshots_refs_keeps_what_a_ref_points_at_directly,
)
from tests.contract.test_metadata_files import test_log_is_trimmed, test_log_of_metadata_files
from tests.contract.test_namespaces import (
    test_drop_of_a_namespace_with_content_is_409,
    test_properties_are_set_removed_and_missed,
)
from tests.contract.test_paging import listing, test_order_is_the_same_paged_or_not
from tests.contract.test_purge import (
    engine,
    test_files_that_another_table_reaches_stay,
    test_name_of_a_renamed_table_is_safe_to_use_again,
    test_neighbour_keeps_every_file,
)
from tests.contract.test_requirements import (
    test_first_append_requires_that_main_does_not_exist,
    test_two_parallel_first_appends_have_one_winner,
)
from tests.contract.test_stage_create import test_commit_publishes_what_was_staged
from tests.contract.test_transactions import (
    pair,
    test_crossing_transactions_never_mix,
    test_requirement_of_one_fails_and_none_is_touched,
    test_tables_of_several_namespaces,
    test_unknown_table_is_404_and_none_is_touched,
)
from tests.contract.test_view_updates import test_concurrent_replacements_all_succeed
from tests.contract.test_views import test_answer_of_the_least_request, test_load_gives_what_create_answered
from tests.contract.updates import set_properties

__all__ = [
    "engine",
    "history",
    "listing",
    "mutation",
    "pair",
    "source",
    "test_answer_has_location_metadata_and_config",
    "test_answer_is_what_a_load_gives",
    "test_answer_of_the_least_request",
    "test_commit_publishes_what_was_staged",
    "test_commits_whose_requirements_hold_never_conflict",
    "test_concurrent_duplicates_have_one_effect",
    "test_concurrent_replacements_all_succeed",
    "test_creates_of_a_table_and_a_view_of_one_name",
    "test_creates_of_one_namespace",
    "test_crossing_transactions_never_mix",
    "test_drop_of_a_namespace_with_content_is_409",
    "test_existing_table_is_409_and_untouched",
    "test_files_that_another_table_reaches_stay",
    "test_first_append_requires_that_main_does_not_exist",
    "test_format_versions",
    "test_in_a_missing_namespace_is_404",
    "test_load_gives_what_create_answered",
    "test_log_is_trimmed",
    "test_log_of_metadata_files",
    "test_name_of_a_renamed_table_is_safe_to_use_again",
    "test_neighbour_keeps_every_file",
    "test_order_is_the_same_paged_or_not",
    "test_properties_are_set_removed_and_missed",
    "test_replay_has_the_same_answer_and_no_second_effect",
    "test_requirement_of_one_fails_and_none_is_touched",
    "test_snapshots_all_is_the_default",
    "test_snapshots_refs_keeps_what_a_ref_points_at_directly",
    "test_tables_of_several_namespaces",
    "test_tag_gives_304_without_a_body",
    "test_tag_is_that_of_the_next_load",
    "test_two_parallel_first_appends_have_one_winner",
    "test_unknown_table_is_404_and_none_is_touched",
]


@pytest.fixture(scope="module")
def lake(deploy: Callable[[str, str], Any]) -> Iterator[Lake]:
    """A service with its store on PostgreSQL and its tables on S3."""
    with deploy("postgresql", "s3") as made:
        yield made


@pytest.fixture(scope="module")
def catalog(lake: Lake) -> Iterator[Catalog]:
    client = Catalog(lake.server.base_url, lake.server.warehouse)
    yield client
    client.close()


def test_config_tells_how_to_reach_the_bucket_and_no_secret(lake: BucketLake, catalog: Catalog, table: Table):
    headers = {"x-iceberg-access-delegation": "vended-credentials"}
    for options in ({}, {"headers": headers}):
        answer = catalog.get(table.path, **options)
        body = answer.json()
        assert body.get("storage-credentials", []) == []
        assert body["config"] == {
            "s3.endpoint": lake.s3.endpoint,
            "s3.path-style-access": "true",
            "s3.region": "us-east-1",
            "client.region": "us-east-1",
        }
        assert lake.s3.access_key_id not in answer.text
        assert lake.s3.secret_access_key not in answer.text


def test_metadata_file_holds_the_document_that_is_answered(lake: BucketLake, table: Table):
    table.committed([set_properties(a="1")])
    body = table.get()
    location = body["metadata-location"]
    assert location.startswith(f"{lake.root}/")
    assert location in lake.files(body["metadata"]["location"])
    assert lake.read(location) == msgspec.json.encode(body["metadata"])
