"""Files that a scan reads, the deletes that apply to each, and the residual of its filter."""
