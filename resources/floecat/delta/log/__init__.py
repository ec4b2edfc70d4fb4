"""Delta logs: which versions they hold, and the state at each, from commits and checkpoints."""
