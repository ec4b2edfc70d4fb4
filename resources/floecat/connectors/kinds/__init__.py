"""Kinds of connectors that are built in."""
