"""Principals, and the validation of bearer tokens."""
