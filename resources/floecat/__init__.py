"""The kernel of Floecat: catalog, commits, formats and storage. It knows no web or pipeline framework."""

__version__ = "0.1.0"
