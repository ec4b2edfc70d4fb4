"""Storage of a catalog: its files, the locations it may use, and what clients are told of it."""
