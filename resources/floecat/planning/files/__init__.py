"""Which files a scan reads, which deletes apply to each, and what is left of its filter."""
