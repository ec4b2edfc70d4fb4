"""Sources of tables outside the catalog."""
