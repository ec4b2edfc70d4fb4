"""Files of a purged table that stay: another table, or an earlier state of one, still needs them."""
