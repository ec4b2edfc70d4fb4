"""Rows of accounts, catalogs, namespaces and connectors."""
