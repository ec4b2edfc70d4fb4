"""Delta in Iceberg's terms: schemas, field ids, partitions, statistics."""
