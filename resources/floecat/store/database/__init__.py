"""The SQL database: connections, transactions, faults, of SQLite and of PostgreSQL."""
