"""Rows of tables and views: names, current documents, snapshots, locations."""
