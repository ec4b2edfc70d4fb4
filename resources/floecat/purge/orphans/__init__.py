"""Orphan files: files below the location of a table that nothing in any catalog leads to."""
