"""Catalogs, namespaces, tables and views as entries: look-ups, loads, and changes that write no metadata."""
