"""Delta tables as Iceberg tables: the files that make them readable, and when these are made."""
