"""Rows of what the catalog knows of snapshots beyond metadata: captures, statistics, constraints, indexes."""
