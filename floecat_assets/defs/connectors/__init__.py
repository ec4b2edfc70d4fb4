"""Connectors: scans by schedule, and what they found."""
