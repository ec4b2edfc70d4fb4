"""Rows of commits: the log, confirmed transactions, idempotency records, metrics reports."""
