"""Schemas, types, partition specs and sort orders."""
