"""What a capture gives in the end: the statistics of a snapshot, in the store and in the table."""
