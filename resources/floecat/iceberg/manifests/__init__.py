"""Manifests and manifest lists: reading, writing, rewriting (table specification, "Manifests")."""
