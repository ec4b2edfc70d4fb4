"""Captures of snapshots: what is captured, by which jobs, and how the result becomes visible at once."""
