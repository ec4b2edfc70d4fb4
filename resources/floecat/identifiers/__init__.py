"""Names of namespaces, tables and views: levels, separators, encodings."""
