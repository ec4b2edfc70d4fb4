"""The check of jobs that failed for good."""

# no __future__.annotations here: Dagster wants the type of `kernel` and takes no text for it

from typing import TYPE_CHECKING, NamedTuple

import dagster as dg

from floecat_assets.defs.resources import KernelResource

if TYPE_CHECKING:
    from floecat.runtime import Kernel

__all__ = ["FailedJobs"]

_SHOWN = 50


class FailedJobs(NamedTuple):
    """Checks that no job of some kinds has used up its attempts."""

    asset: dg.AssetKey
    """The asset that is checked; its first part groups the metadata, and names the pool."""
    name: str
    what: str
    """The noun for the jobs."""
    kinds: tuple[str, ...]

    def count(self, kernel: "Kernel") -> int:
        """The number of jobs that have used them up."""
        counts = kernel.jobs.of(*self.kinds).count()
        return sum(count for (_, state), count in counts.items() if state == "failed")

    def evaluate(self, kernel: "Kernel") -> dg.AssetCheckEvaluation:
        """The result of the check."""
        count, group = self.count(kernel), self.asset.path[0]
        failed = kernel.jobs.of(*self.kinds).failed(_SHOWN)
        columns = ("id", "kind", "table", "problem")
        rows = ((str(job.id), job.kind, job.title, job.last_error or "") for job in failed)
        return dg.AssetCheckEvaluation(
            asset_key=self.asset,
            check_name=self.name,
            passed=count == 0,
            description=f"{count} {self.what} have used up their attempts"
            + (": `floecat job show ID` tells why, `floecat job retry ID` tries again" if count else ""),
            metadata={
                f"{group}/failed": count,
                f"{group}/{self.what}": dg.MetadataValue.table(
                    records=[dg.TableRecord(dict(zip(columns, row, strict=True))) for row in rows],
                    schema=dg.TableSchema([dg.TableColumn(name) for name in columns]),
                ),
            },
        )

    def check(self) -> dg.AssetChecksDefinition:
        """The check for Dagster."""

        @dg.asset_check(
            asset=self.asset,
            name=self.name,
            description=f"No {self.what} have used up their attempts.",
            pool=self.asset.path[0],
        )
        def check(kernel: KernelResource) -> dg.AssetCheckResult:
            found = self.evaluate(kernel.open())
            return dg.AssetCheckResult(
                passed=found.passed, description=found.description, metadata=dict(found.metadata)
            )

        return check
