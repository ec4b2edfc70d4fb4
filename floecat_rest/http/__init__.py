"""HTTP: connections, paths, bodies, errors, and the way to handlers and back."""
