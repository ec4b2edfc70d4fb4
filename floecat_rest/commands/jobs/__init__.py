"""Commands for background work: `floecat job`, `floecat purge`, `floecat capture`."""
