"""Every error that the kernel raises on purpose.

    FloecatError
    ├── BadRequestError                 the request cannot be understood
    │   └── PayloadTooLargeError
    ├── IllegalArgumentError            understood, and against a rule of the format
    │   ├── InvalidMetadataError        a metadata document that breaks the specification
    │   │   └── BoundExceededError      a file that exceeds a bound of `floecat.limits`
    │   └── InvalidDeltaTableError      a Delta table that breaks its protocol, or misses files
    ├── UnprocessableError              understood, and contradicts itself
    ├── NotAuthorizedError              no valid identity
    │   └── InvalidTokenError           a token that is refused
    ├── ForbiddenError                  a valid identity without the right
    │   ├── LocationNotAllowedError     a location outside the allowed ones
    │   ├── StorageRefusedError         the service itself lacks a right in storage
    │   └── UpstreamRefusedError        another catalog refuses the login of a connector
    ├── NotFoundError
    │   ├── NoSuchWarehouseError
    │   ├── NoSuchNamespaceError
    │   ├── NoSuchTableError
    │   ├── NoSuchViewError
    │   ├── NoSuchFunctionError
    │   ├── NoSuchQueryError
    │   │   └── NoSuchPlanIdError
    │   ├── NoSuchPlanTaskError
    │   └── FileMissingError            a file that should be in storage
    ├── ConflictError
    │   ├── AlreadyExistsError
    │   ├── NamespaceNotEmptyError
    │   ├── CommitFailedError           a requirement does not hold on the newest metadata
    │   ├── PinMismatchError            a query has pinned another state of the table
    │   └── IdempotencyConflictError    the key was used for another request
    ├── UnsupportedOperationError
    │   └── UnsupportedDeltaTableError  a Delta table that has no exact equal in Iceberg
    ├── CommitStateUnknownError         the commit may have been applied
    ├── PurgeFailedError                the table is dropped, and its files are still there
    ├── UnavailableError                surely not applied; try again later
    │   ├── LeftToPipelineError         too much work for a request
    │   ├── PlanStoppedError            a scan plan that its owner gave up
    │   ├── StoreUnavailableError
    │   └── StorageUnavailableError
    └── SettingsError                   a setting that stops the start

The front ends map these to their protocols, each in one table. A message is written for the user of the
catalog: it names identifiers and locations, never credentials and never what a file contains.
"""

from __future__ import annotations

__all__ = [
    "AlreadyExistsError",
    "BadRequestError",
    "BoundExceededError",
    "CommitFailedError",
    "CommitStateUnknownError",
    "ConflictError",
    "FileMissingError",
    "FloecatError",
    "ForbiddenError",
    "IdempotencyConflictError",
    "IllegalArgumentError",
    "InvalidDeltaTableError",
    "InvalidMetadataError",
    "InvalidTokenError",
    "LeftToPipelineError",
    "LocationNotAllowedError",
    "NamespaceNotEmptyError",
    "NoSuchFunctionError",
    "NoSuchNamespaceError",
    "NoSuchPlanIdError",
    "NoSuchPlanTaskError",
    "NoSuchQueryError",
    "NoSuchTableError",
    "NoSuchViewError",
    "NoSuchWarehouseError",
    "NotAuthorizedError",
    "NotFoundError",
    "PayloadTooLargeError",
    "PinMismatchError",
    "PlanStoppedError",
    "PurgeFailedError",
    "SettingsError",
    "StorageRefusedError",
    "StorageUnavailableError",
    "StoreUnavailableError",
    "UnavailableError",
    "UnprocessableError",
    "UnsupportedDeltaTableError",
    "UnsupportedOperationError",
    "UpstreamRefusedError",
]


class FloecatError(Exception):
    """Root of the tree.

    Attributes:
        message: one sentence for the user of the catalog.
        told: what clients are told: less, where the message is for an operator.
    """

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = self.told = message


class BadRequestError(FloecatError):
    """The request is malformed: its JSON, a name, a parameter."""


class PayloadTooLargeError(BadRequestError):
    """The body of a request, or a file, is larger than the service takes.

    Attributes:
        size_bytes: of the file; `None` if unknown.
    """

    size_bytes: int | None = None


class IllegalArgumentError(FloecatError):
    """The request is well formed and breaks a rule of the table or view specification."""


class InvalidMetadataError(IllegalArgumentError):
    """A metadata document that cannot be read or breaks the specification."""


class BoundExceededError(InvalidMetadataError):
    """A file that may be intact, and exceeds a bound of `floecat.limits`, which the message names."""


class InvalidDeltaTableError(IllegalArgumentError):
    """A Delta table whose log or deletion vectors break the protocol, or whose files are not all there."""


class UnprocessableError(FloecatError):
    """The request contradicts itself, as a property that is both set and removed."""


class NotAuthorizedError(FloecatError):
    """The request carries no valid identity."""


class InvalidTokenError(NotAuthorizedError):
    """The bearer token is malformed, forged, expired, or not for this service."""


class ForbiddenError(FloecatError):
    """The identity is valid and lacks the right."""


class LocationNotAllowedError(ForbiddenError):
    """A location outside the allowed locations of the catalog."""


class StorageRefusedError(ForbiddenError):
    """Storage refuses the keys or the user of the service, which only an operator can change."""


class UpstreamRefusedError(ForbiddenError):
    """Another catalog refuses the login of a connector, which only who manages the connector can change."""


class NotFoundError(FloecatError):
    """Something that the request names does not exist."""


class NoSuchWarehouseError(NotFoundError):
    """No catalog has this name."""


class NoSuchNamespaceError(NotFoundError):
    """The namespace does not exist."""


class NoSuchTableError(NotFoundError):
    """The table does not exist."""


class NoSuchViewError(NotFoundError):
    """The view does not exist."""


class NoSuchFunctionError(NotFoundError):
    """The function does not exist."""


class NoSuchQueryError(NotFoundError):
    """The query does not exist: it has expired, or is another principal's."""


class NoSuchPlanIdError(NoSuchQueryError):
    """The scan plan does not exist, or is of another table."""


class NoSuchPlanTaskError(NotFoundError):
    """The task does not exist, was consumed, or its plan is gone."""


class FileMissingError(NotFoundError):
    """A file that an entry points at is not in storage."""


class ConflictError(FloecatError):
    """The state of the catalog does not allow the request."""


class AlreadyExistsError(ConflictError):
    """The name is taken."""


class NamespaceNotEmptyError(ConflictError):
    """The namespace still holds tables, views or namespaces."""


class CommitFailedError(ConflictError):
    """A requirement of the commit does not hold on the newest metadata. Nothing was changed."""


class PinMismatchError(ConflictError):
    """A query asks for another state of a table than the one that it has pinned."""


class IdempotencyConflictError(ConflictError):
    """The idempotency key belongs to another request."""


class UnsupportedOperationError(FloecatError):
    """The catalog does not do this."""


class UnsupportedDeltaTableError(UnsupportedOperationError):
    """A Delta table that cannot be read exactly: an unknown feature, a change of type, a partitioning."""


class CommitStateUnknownError(FloecatError):
    """The commit may have been applied, and the store does not say. Its files must be kept."""


class PurgeFailedError(FloecatError):
    """A table was dropped with purge, and the purger failed. Workers call it again."""


class UnavailableError(FloecatError):
    """A service that is needed is away. The request was surely not applied.

    Attributes:
        retry_after_s: after how many seconds a retry makes sense.
    """

    def __init__(self, message: str, *, retry_after_s: int = 1) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class LeftToPipelineError(UnavailableError):
    """Work that is too much for a request; the pipeline does it."""


class PlanStoppedError(UnavailableError):
    """Planning ended early because nobody waits for the plan any more."""


class StoreUnavailableError(UnavailableError):
    """The SQL store does not answer."""


class StorageUnavailableError(UnavailableError):
    """Object storage fails or does not answer in time."""


class SettingsError(FloecatError):
    """A setting is unknown or has a value of the wrong kind."""
