"""Purges of dropped tables, and orphan files of live ones."""
