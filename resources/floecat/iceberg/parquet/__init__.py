"""Columns, statistics and field ids in Parquet footers."""
