"""Clients of Iceberg REST catalogs, ours or others, for programs that are not Iceberg engines."""
