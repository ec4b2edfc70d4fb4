"""What clients do to the catalog, seen as assets."""
