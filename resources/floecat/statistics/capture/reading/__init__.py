"""The input of a capture: data files with their deletes, counted and kept in sidecars."""
