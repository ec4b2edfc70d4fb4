"""Statements that are compiled once for each database.

SQLAlchemy writes the SQL and knows how values look in each database; running it is left to the driver, which
takes a third of the time of a full execution.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

import sqlalchemy as sa
from sqlalchemy.engine.interfaces import DBAPIConnection, DBAPICursor
from sqlalchemy.sql.compiler import SQLCompiler

__all__ = [
    "Parameters",
    "PerDialect",
    "PreparedStatement",
    "PreparedStatements",
    "Row",
    "Statement",
    "TwoChanges",
]

Row: TypeAlias = Sequence[Any]
Parameters: TypeAlias = Mapping[str, Any]
_Processor: TypeAlias = Callable[[Any], Any]
_Processors: TypeAlias = Sequence[tuple[str, _Processor | None]]


class PerDialect(NamedTuple):
    """A statement that the two databases write differently."""

    sqlite: sa.Executable
    postgresql: sa.Executable


Statement: TypeAlias = sa.Executable | PerDialect


class TwoChanges:
    """A change of one row, and a change of a row of another table that is made if the first one is.

    PostgreSQL makes both in one statement, SQLite in two.

    Attributes:
        first: the first change alone.
        second: the second change alone.
        joined: both as one statement, whose row count is that of the second.
    """

    def __init__(
        self,
        first: sa.Insert | sa.Update,
        second: Callable[[sa.ColumnElement[Any]], sa.Insert | sa.Update],
        *,
        key: sa.Column[Any],
        parameter: str,
    ) -> None:
        """Builds the statements.

        Args:
            first: the first change.
            second: builds the second change, given the key of the row of the first one.
            key: column of that key.
        """
        changed = first.returning(key).cte("changed")
        self.first: Final = first
        self.second: Final = second(sa.bindparam(parameter, type_=key.type))
        self.joined: Final = second(sa.select(changed.c[key.name]).scalar_subquery())


class PreparedStatement:
    """The SQL of one statement, and how values go in and come out.

    Attributes:
        statement: what was compiled.
        is_query: whether it only reads.
        is_fixed: whether the SQL is the same for all values; it is not for a list after IN.
    """

    __slots__ = (
        "_columns",
        "_compiled",
        "_constants",
        "_parameters",
        "_positional",
        "_sql",
        "is_fixed",
        "is_query",
        "statement",
    )

    def __init__(self, statement: sa.Executable, dialect: sa.Dialect, keys: Sequence[str]) -> None:
        if not isinstance(statement, sa.ClauseElement):
            raise TypeError("a statement is a clause")
        # an INSERT names the columns that have values; elsewhere the statement does
        compiled = statement.compile(
            dialect=dialect, column_keys=list(keys) if isinstance(statement, sa.Insert) else None
        )
        if not isinstance(compiled, SQLCompiler):
            raise TypeError("a statement compiles to SQL")
        binds = compiled.binds
        self.statement: Final = statement
        self.is_query: Final = isinstance(statement, sa.Select) and not any(
            isinstance(each.element, sa.UpdateBase) for each in compiled.ctes or ()
        )
        self.is_fixed: Final = not any(bind.expanding for bind in binds.values())
        self._compiled: Final = compiled
        self._sql: Final = str(compiled)
        self._positional: Final = compiled.positional
        self._parameters: Final[_Processors] = [
            (name, binds[name].type.dialect_impl(dialect).bind_processor(dialect))
            for name in (compiled.positiontup or compiled.params)
        ]
        self._constants: Final = {
            name: value for name, value in compiled.params.items() if not binds[name].required
        }
        processors = (
            type_.dialect_impl(dialect).result_processor(dialect, None) for type_ in _types(statement)
        )
        self._columns: Final = [
            (index, processor) for index, processor in enumerate(processors) if processor is not None
        ]

    def rows(self, connection: DBAPIConnection, parameters: Parameters) -> list[Any]:
        """All rows of a query or of a change with RETURNING; see `execute` and `fetched`."""
        return self.fetched(self.execute(connection, parameters))

    def execute(self, connection: DBAPIConnection, parameters: Parameters) -> DBAPICursor:
        """Runs the statement; in a pipeline, the outcome is there when that ends.

        Args:
            connection: of the driver.
            parameters: a value for every parameter of the statement.

        Raises:
            KeyError: a parameter has no value.
            Exception: whatever the driver raises.
        """
        cursor = connection.cursor()
        cursor.execute(*self._bound(parameters))
        return cursor

    def execute_many(self, connection: DBAPIConnection, parameters: Sequence[Parameters]) -> DBAPICursor:
        """Runs a change that `is_fixed` once for each set of parameters, as `execute`."""
        bound = [self._bound(each)[1] for each in parameters]
        cursor = connection.cursor()
        cursor.executemany(self._sql, bound)
        return cursor

    def fetched(self, cursor: DBAPICursor) -> list[Any]:
        """The rows of what was executed, as tuples or lists of Python values."""
        rows = cursor.fetchall()
        cursor.close()
        return [self._converted(row) for row in rows] if self._columns else list(rows)

    def _bound(self, parameters: Parameters) -> tuple[str, Any]:
        """The SQL and what the driver binds to it."""
        values = {**self._constants, **parameters} if self._constants else parameters
        if self.is_fixed:
            return self._sql, self._processed(self._parameters, values)
        state = self._compiled.construct_expanded_state(values)
        processors = {**dict(self._parameters), **state.processors}
        names = state.positiontup or state.parameters
        return state.statement, self._processed(
            [(name, processors.get(name)) for name in names], state.parameters
        )

    def _processed(self, parameters: _Processors, values: Parameters) -> Any:
        if self._positional:
            return [
                values[name] if process is None else process(values[name]) for name, process in parameters
            ]
        return {
            name: values[name] if process is None else process(values[name]) for name, process in parameters
        }

    def _converted(self, row: tuple[Any, ...]) -> list[Any]:
        values = list(row)
        for index, process in self._columns:
            values[index] = process(values[index])
        return values


class PreparedStatements:
    """The prepared statements of one database, each compiled when it is first asked for."""

    def __init__(self, dialect: sa.Dialect) -> None:
        self._dialect = dialect
        # each is kept with what it was made from, so that no other statement can get the same id
        self._prepared: dict[int, tuple[Statement, PreparedStatement]] = {}

    def get(self, statement: Statement, parameters: Parameters) -> PreparedStatement:
        """The compiled form of a statement that lives as long as the program.

        Args:
            parameters: of the first use; every other use has the same keys.
        """
        found = self._prepared.get(id(statement))
        if found is None:
            found = (statement, self._prepare(statement, parameters))
            self._prepared[id(statement)] = found
        return found[1]

    def _prepare(self, statement: Statement, parameters: Parameters) -> PreparedStatement:
        if isinstance(statement, PerDialect):
            statement = statement.sqlite if self._dialect.name == "sqlite" else statement.postgresql
        return PreparedStatement(statement, self._dialect, list(parameters))


def _types(statement: sa.Executable) -> list[sa.types.TypeEngine[Any]]:
    """Types of the columns that come back."""
    if isinstance(statement, sa.Select):
        return [column.type for column in statement.selected_columns]
    if isinstance(statement, sa.Insert | sa.Update | sa.Delete):
        return [column["type"] for column in statement.returning_column_descriptions]
    return []
