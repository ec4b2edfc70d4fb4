"""Refresh of tables from their logs: versions become snapshots, on a load and in the pipeline."""
