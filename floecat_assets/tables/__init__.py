"""The code location `tables`: an asset for each table, and no code that runs."""
