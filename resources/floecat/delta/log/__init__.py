"""Reads Delta logs: their versions, and the state of the table at each, from commits and checkpoints."""
