"""Access: roles, grants and owners, and what follows from them."""
