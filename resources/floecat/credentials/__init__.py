"""Keys to the storage: authorities that make them, keys for clients, and signed requests."""
