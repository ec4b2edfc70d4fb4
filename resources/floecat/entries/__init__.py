"""Entries, the tables and views of a catalog: found by name, kept in memory, and written in one way."""
