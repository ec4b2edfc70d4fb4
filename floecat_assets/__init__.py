"""The Dagster code location: what happens in the catalog, as assets, sensors and schedules."""
