"""Delta tables, made readable ahead of their readers."""
