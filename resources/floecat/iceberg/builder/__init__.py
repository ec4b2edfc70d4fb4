"""New table metadata from updates."""
