"""Filters of scans: read, bound to a schema, and judged by what is known of many files at once."""
