"""Iceberg's formats: table and view metadata, their updates and requirements. Pure: it does no I/O."""
