"""The SQL store: SQLite or PostgreSQL, one code for both.

`engine` lends connections and keeps transactions; every other module holds the statements of one kind of
row. Their functions take a connection first and return frozen structs. No error of SQLAlchemy or of a driver
leaves this package.
"""
