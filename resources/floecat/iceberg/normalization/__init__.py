"""Table metadata that others wrote, brought into the form that every reader reads.

A document that has this form already stays the bytes that it is. What cannot be brought into it without a
guess is refused by name. docs/contract.md has the list: what writers send and what is answered.
"""

from floecat.iceberg.normalization.tables import normalize_table, read_foreign_table, read_metadata_file

__all__ = ["normalize_table", "read_foreign_table", "read_metadata_file"]
