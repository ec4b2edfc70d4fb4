"""The Delta table format: logs, deletion vectors, and their translation to Iceberg. No I/O."""
