"""Answers about scan plans, and the names of their tasks."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, Literal, NamedTuple, TypeAlias
from uuid import UUID

import msgspec

import floecat.errors
from floecat.errors import FloecatError, NoSuchPlanTaskError
from floecat.store.entries.documents import compress, decompress

__all__ = [
    "NO_TASKS",
    "PartitionForm",
    "PlanAnswer",
    "PlanStatus",
    "TaskChunk",
    "TaskName",
    "decode_error",
    "encode_error",
    "task_list",
    "unpack",
]

PlanStatus: TypeAlias = Literal["completed", "submitted", "cancelled", "failed"]
"""Status as the REST specification has it."""

PartitionForm: TypeAlias = Literal["specified", "pyiceberg", "pyiceberg-without-columns"]
"""Spelling of partitions: as specified, or for PyIceberg up to 0.12; the last one for data files that do not
have the columns that they are partitioned by."""

_TASK_NAME: Final = re.compile(r"([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})-task-(0|[1-9][0-9]{0,15})")


class PlanAnswer(msgspec.Struct, frozen=True):
    """A plan as a front end renders it."""

    plan_id: UUID
    status: PlanStatus
    fields: bytes = b""
    """Tasks of a completed plan, as the fields of a JSON object without the braces."""
    error: FloecatError | None = None
    """Error of a failed plan."""


class TaskChunk(msgspec.Struct, frozen=True):
    """Some file scan tasks."""

    answer: bytes
    """Fields of a JSON object, without its braces, compressed."""
    files: int
    has_references: bool = False
    """Whether large sets are put in by reference; see `residual_texts`."""


class TaskName(NamedTuple):
    """Names a task: `<plan id>-task-<number>`."""

    plan_id: UUID
    number: int

    def __str__(self) -> str:
        return f"{self.plan_id}-task-{self.number}"

    @classmethod
    def parse(cls, text: str) -> TaskName:
        """Reads a name.

        Raises:
            NoSuchPlanTaskError: no task is named so.
        """
        match = _TASK_NAME.fullmatch(text)
        if match is None:
            raise NoSuchPlanTaskError("Plan task does not exist")
        return cls(UUID(match[1]), int(match[2]))


def task_list(plan_id: UUID, numbers: Iterable[int]) -> bytes:
    """Tasks as the fields of an answer, compressed."""
    return compress(
        b'"plan-tasks":' + msgspec.json.encode([str(TaskName(plan_id, number)) for number in numbers])
    )


NO_TASKS: Final = compress(b'"file-scan-tasks":[]')
"""The fields of an answer without any task, compressed."""


def unpack(fields: bytes | None) -> bytes:
    """The fields of an answer."""
    return decompress(fields or NO_TASKS)


class _Failure(msgspec.Struct):
    error: str
    message: str


def encode_error(error: FloecatError) -> str:
    """An error as a plan keeps it."""
    return msgspec.json.encode(_Failure(type(error).__name__, error.message)).decode()


def decode_error(text: str) -> FloecatError:
    """The error that `encode_error` wrote."""
    failure = msgspec.json.decode(text, type=_Failure)
    made: FloecatError = getattr(floecat.errors, failure.error, FloecatError)(failure.message)
    return made
