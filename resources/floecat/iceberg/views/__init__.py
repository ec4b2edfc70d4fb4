"""View metadata (view specification)."""
