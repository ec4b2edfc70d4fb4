"""Deletion of the files of dropped tables, by reachability and never by prefix."""
