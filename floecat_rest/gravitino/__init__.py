"""HTTP API in the shape of Apache Gravitino: metalakes are accounts, schemas are namespaces."""
