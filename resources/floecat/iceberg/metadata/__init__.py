"""Table metadata: the document, its parts, and the checks of documents that others wrote."""
