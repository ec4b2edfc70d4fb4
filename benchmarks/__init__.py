"""Measurements of the service on this machine."""
