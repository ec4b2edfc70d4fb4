"""Bodies of the management routes."""
