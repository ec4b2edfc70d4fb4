"""The Iceberg REST catalog: one controller per path, each handler one call of the kernel."""
