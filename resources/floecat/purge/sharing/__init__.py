"""What must stay: the files of a purged table that another table, or an earlier state of one, still needs."""
