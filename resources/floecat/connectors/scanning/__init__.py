"""Scans: what connectors find, registered or followed, and captured."""
