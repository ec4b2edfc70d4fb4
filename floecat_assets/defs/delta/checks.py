"""Checks of Delta tables: those that come with the asset, and one over all tables."""

# no __future__.annotations here: Dagster wants the type of `context` and takes no text for it

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

import dagster as dg

from floecat.errors import FloecatError, NoSuchTableError
from floecat_assets.defs.asset_keys import ARTIFACTS
from floecat_assets.defs.partitions import DELTA_TABLES
from floecat_assets.defs.resources import KernelResource
from floecat_assets.table_keys import require_table_id

if TYPE_CHECKING:
    from floecat.delta.refresh.verification import FileCounts, TableCounts

__all__ = ["ARTIFACTS", "artifacts_present", "check_results", "check_specs", "nothing_to_check"]

_CHECKS: Final[Mapping[str, str]] = {
    "live_files_match": "The manifests list the files that are live in Delta's log, each of them once.",
    "rows_match": "The files hold as many rows by the manifests as by the statistics of Delta's log.",
    "deleted_rows_match": "Delete files delete as many rows as the deletion vectors of Delta's log.",
}

_SHOWN_LOCATIONS = 20
_SHOWN_TABLES = 50


def check_specs() -> Sequence[dg.AssetCheckSpec]:
    """The checks that come with the asset; each table has its own state."""
    with warnings.catch_warnings():
        # a check without partitions would only show the table that came last
        warnings.simplefilter("ignore", dg.PreviewWarning)
        return [
            dg.AssetCheckSpec(name, asset=ARTIFACTS, description=description, partitions_def=DELTA_TABLES)
            for name, description in _CHECKS.items()
        ]


def nothing_to_check() -> Iterator[dg.AssetCheckResult]:
    """Results for a partition that is not a Delta table: Dagster requires them."""
    for name in _CHECKS:
        yield dg.AssetCheckResult(check_name=name, passed=True, description="Not a Delta table")


def check_results(numbers: "TableCounts") -> Sequence[dg.AssetCheckResult]:
    """A result for each of `check_specs`."""
    delta, iceberg = numbers.delta, numbers.iceberg
    return [
        dg.AssetCheckResult(
            check_name="live_files_match",
            passed=not numbers.missing and not numbers.unexpected,
            description=f"{delta.files} live files in the log, {iceberg.files} in the manifests",
            metadata={
                **_both("files", delta.files, iceberg.files),
                **_locations("missing", numbers.missing),
                **_locations("unexpected", numbers.unexpected),
            },
        ),
        _rows(delta, iceberg),
        dg.AssetCheckResult(
            check_name="deleted_rows_match",
            passed=delta.deleted_rows == iceberg.deleted_rows and not numbers.stray_deletes,
            description=(
                f"{delta.deleted_rows} rows deleted by the log, {iceberg.deleted_rows} by delete files"
            ),
            metadata={
                **_both("deleted_rows", delta.deleted_rows, iceberg.deleted_rows),
                **_both("files_with_deletes", delta.files_with_deletes, iceberg.files_with_deletes),
                **_locations("stray_deletes", numbers.stray_deletes),
            },
        ),
    ]


@dg.asset_check(asset=ARTIFACTS, pool="delta")
def artifacts_present(context: dg.AssetCheckExecutionContext, kernel: KernelResource) -> dg.AssetCheckResult:
    """Every artifact that the entry of a Delta table leads to is in storage; missing ones are rebuilt.

    Delta's `VACUUM` deletes files that its log does not name, unless they are located elsewhere
    (`floecat.gateway.delta-compat.location`). A run of one partition checks that table only.
    """
    only = require_table_id(context.partition_key) if context.has_partition_key else None
    pipeline = kernel.delta_pipeline()
    looked = repaired = 0
    records: list[dg.TableRecord] = []
    for table in pipeline.tables():
        if only is not None and table.entry_id != only:
            continue
        looked += 1
        try:
            if not pipeline.repair(table.entry_id):
                continue
        except NoSuchTableError:  # dropped meanwhile
            continue
        except FloecatError as error:
            outcome = error.message
        except Exception as error:  # unexpected; the other tables are still checked
            context.log.exception("table %s could not be checked", table.name)
            outcome = f"internal error: {type(error).__name__}"
        else:
            repaired += 1
            outcome = "rebuilt"
        records.append(dg.TableRecord({"table": table.name, "outcome": outcome}))
    failed = len(records) - repaired
    return dg.AssetCheckResult(
        passed=not records,
        severity=dg.AssetCheckSeverity.ERROR if failed else dg.AssetCheckSeverity.WARN,
        description=(
            f"{looked} Delta tables: {repaired} had missing artifacts, which were rebuilt;"
            f" {failed} could not be checked or repaired"
        ),
        metadata={
            "floecat/tables": looked,
            "floecat/repaired": repaired,
            "floecat/failed": failed,
            "floecat/outcomes": dg.MetadataValue.table(
                records=records[:_SHOWN_TABLES],
                schema=dg.TableSchema([dg.TableColumn("table"), dg.TableColumn("outcome")]),
            ),
        },
    )


def _rows(delta: "FileCounts", iceberg: "FileCounts") -> dg.AssetCheckResult:
    description = f"{delta.rows} rows by the log, {iceberg.rows} by the manifests"
    if delta.files_without_rows:
        # then the manifests may have more counts, from the footers of the files, and never fewer
        passed = iceberg.rows >= delta.rows and iceberg.files_without_rows <= delta.files_without_rows
        description += f"; the log has no row count for {delta.files_without_rows} of its files"
    else:
        passed = iceberg.rows == delta.rows and not iceberg.files_without_rows
    return dg.AssetCheckResult(
        check_name="rows_match",
        passed=passed,
        description=description,
        metadata={
            **_both("rows", delta.rows, iceberg.rows),
            **_both("files_without_rows", delta.files_without_rows, iceberg.files_without_rows),
        },
    )


def _both(what: str, delta: int, iceberg: int) -> dict[str, dg.MetadataValue]:
    return {
        f"delta/{what}": dg.MetadataValue.int(delta),
        f"iceberg/{what}": dg.MetadataValue.int(iceberg),
    }


def _locations(what: str, locations: Iterable[str]) -> dict[str, dg.MetadataValue]:
    found = list(locations)
    if not found:
        return {}
    return {
        f"floecat/{what}": dg.MetadataValue.json({"count": len(found), "first": found[:_SHOWN_LOCATIONS]})
    }
