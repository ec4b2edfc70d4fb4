"""The result of a capture: the statistics of a snapshot, in the store and in the table."""
