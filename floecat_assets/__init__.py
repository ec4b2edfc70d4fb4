"""The Dagster code location: the catalog as assets, sensors and schedules."""
