"""Rows of access: principals, roles, grants, and the log of their changes."""
