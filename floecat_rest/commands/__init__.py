"""The subcommands of `floecat`, one module each."""
