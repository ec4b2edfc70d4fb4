"""Statistics of data files: read, merged, and written for engines."""
