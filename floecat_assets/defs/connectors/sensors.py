"""The sensor of runs of scans that fail."""

# no __future__.annotations here: Dagster wants the type of `context` and takes no text for it

import dagster as dg

from floecat_assets.defs.connectors.jobs import connector_scan
from floecat_assets.defs.resources import KernelResource

__all__ = ["failed_scan_sensor"]


@dg.run_failure_sensor(
    monitored_jobs=[connector_scan],
    default_status=dg.DefaultSensorStatus.RUNNING,
    minimum_interval_seconds=30,
    description="Writes why a run of connector_scan failed to the scans it left, and has them done again.",
)
def failed_scan_sensor(context: dg.RunFailureSensorContext, kernel: KernelResource) -> dg.SkipReason | None:
    """Makes scans due again that a run left which failed, as when its process was killed."""
    run_id = context.dagster_run.run_id
    count = kernel.connector_scans().end_run(run_id, f"run {run_id} failed: {context.failure_event.message}")
    return None if count else dg.SkipReason("The run left no scan")
