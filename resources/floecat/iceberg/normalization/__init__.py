"""Table metadata of other writers, brought into the form that every reader reads.

A document that already has this form keeps its bytes. What cannot be converted without a guess is refused by
name. docs/development/contract.md lists what writers send and what the catalog answers.
"""

from floecat.iceberg.normalization.tables import normalize_table, read_foreign_table, read_metadata_file

__all__ = ["normalize_table", "read_foreign_table", "read_metadata_file"]
