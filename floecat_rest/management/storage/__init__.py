"""Storage authorities over HTTP."""
