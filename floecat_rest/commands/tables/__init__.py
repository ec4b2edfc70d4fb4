"""Commands for tables: `floecat table` and its parts."""
