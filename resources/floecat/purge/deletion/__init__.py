"""The deletion of a table's files: leaves first, in batches, resumed where it stopped."""
