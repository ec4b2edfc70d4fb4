"""What a capture reads: data files with their deletes, counted and kept in sidecars."""
