"""Commits of clients, as events of assets."""
