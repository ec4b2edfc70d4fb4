"""Statuses of tables whose partition has another key now: Dagster cannot rename a partition."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import dagster as dg

from floecat_assets.defs.asset_keys import PARTITIONED

__all__ = ["moved_statuses"]

_DATA_VERSION: Final = "dagster/data_version"


def moved_statuses(
    instance: dg.DagsterInstance, moves: Mapping[str, str]
) -> Iterator[dg.AssetMaterialization]:
    """The last materialization of each asset under the former key, for the new one if it has none yet.

    Args:
        instance: Dagster's.
        moves: the new key of each former one.
    """
    for asset_key in PARTITIONED if moves else ():
        newest = instance.get_latest_storage_id_by_partition(
            asset_key, dg.DagsterEventType.ASSET_MATERIALIZATION, {*moves, *moves.values()}
        )
        ids = [newest[old] for old, new in moves.items() if old in newest and new not in newest]
        wanted = dg.AssetRecordsFilter(asset_key=asset_key, storage_ids=ids)
        records = instance.fetch_materializations(wanted, limit=len(ids)).records if ids else ()
        for record in records:
            made = record.asset_materialization
            if made is not None and made.partition is not None:
                version = (made.tags or {}).get(_DATA_VERSION)
                yield dg.AssetMaterialization(
                    asset_key,
                    description=made.description,
                    metadata=made.metadata,
                    partition=moves[made.partition],
                    tags={_DATA_VERSION: version} if version else {},
                )
