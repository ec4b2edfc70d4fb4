"""Scan planning on the server, and the queries whose tables are read in one state."""
