"""Rows of queries and of their plans."""
