"""Statistics of the snapshots of tables."""
