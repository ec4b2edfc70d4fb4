"""Queries that are compiled once, for reads that have to be quick.

SQLAlchemy writes the SQL and knows how values look in each database; running it is left to the driver, which
takes a third of the time of a full execution.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

import sqlalchemy as sa
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.sql.compiler import SQLCompiler

__all__ = ["PreparedQueries", "PreparedQuery"]

_Processor: TypeAlias = Callable[[Any], Any]


class PreparedQuery:
    """The SQL of one query, and how values go in and come out."""

    __slots__ = ("_columns", "_constants", "_parameters", "_positional", "_sql", "is_fixed", "statement")

    def __init__(self, statement: sa.Select[*tuple[Any, ...]], dialect: sa.Dialect) -> None:
        compiled = statement.compile(dialect=dialect)
        if not isinstance(compiled, SQLCompiler):
            raise TypeError("a query compiles to SQL")
        binds = compiled.binds
        self.is_fixed: Final = not any(bind.expanding for bind in binds.values())
        self.statement = statement
        self._sql: Final = str(compiled)
        self._positional: Final = compiled.positional
        self._parameters: Final[list[tuple[str, _Processor | None]]] = [
            (name, binds[name].type.dialect_impl(dialect).bind_processor(dialect))
            for name in (compiled.positiontup or compiled.params)
        ]
        self._constants: Final = {
            name: value for name, value in compiled.params.items() if not binds[name].required
        }
        processors = (
            column.type.dialect_impl(dialect).result_processor(dialect, None)
            for column in statement.selected_columns
        )
        self._columns: Final = [
            (index, processor) for index, processor in enumerate(processors) if processor is not None
        ]

    def rows(self, connection: DBAPIConnection, parameters: Mapping[str, Any]) -> list[Any]:
        """All rows, as tuples or lists of Python values.

        Args:
            connection: of the driver, in autocommit.
            parameters: a value for every parameter of the statement.

        Raises:
            KeyError: a parameter has no value.
            Exception: whatever the driver raises.
        """
        cursor = connection.cursor()
        try:
            cursor.execute(self._sql, self._bound(parameters))
            rows = cursor.fetchall()
        finally:
            cursor.close()
        return [self._converted(row) for row in rows] if self._columns else list(rows)

    def _bound(self, parameters: Mapping[str, Any]) -> Any:
        values = {**self._constants, **parameters} if self._constants else parameters
        if self._positional:
            return [
                values[name] if process is None else process(values[name])
                for name, process in self._parameters
            ]
        return {
            name: values[name] if process is None else process(values[name])
            for name, process in self._parameters
        }

    def _converted(self, row: tuple[Any, ...]) -> list[Any]:
        values = list(row)
        for index, process in self._columns:
            values[index] = process(values[index])
        return values


class PreparedQueries:
    """The prepared queries of one engine, each compiled when it is first asked for."""

    def __init__(self, dialect: sa.Dialect) -> None:
        """Takes the dialect of the engine."""
        self._dialect = dialect
        # a query keeps its statement alive, so no other statement can get the same id
        self._queries: dict[int, PreparedQuery] = {}

    def get(self, statement: sa.Select[*tuple[Any, ...]]) -> PreparedQuery | None:
        """The query of a statement that lives as long as the program.

        Returns:
            `None` for a statement whose SQL depends on the values, as a list after IN.
        """
        query = self._queries.get(id(statement))
        if query is None:
            query = PreparedQuery(statement, self._dialect)
            self._queries[id(statement)] = query
        return query if query.is_fixed else None
