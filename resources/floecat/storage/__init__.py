"""Storage of a catalog: its files, the locations it may use, and the settings that clients get."""
