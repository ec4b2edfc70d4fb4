from __future__ import annotations

import gc
import inspect
import json
import weakref

import pytest

from floecat import errors
from floecat_rest.http.errors import (
    ERROR_KINDS,
    ErrorModel,
    MethodNotAllowedError,
    UnsupportedMediaTypeError,
    answer_error,
    describe_error,
    encode_error,
)

# What the Java client's error handlers look for, and what the specification shows.
KNOWN_TYPES = {
    "AlreadyExistsException",
    "BadRequestException",
    "CommitFailedException",
    "CommitStateUnknownException",
    "ConflictException",
    "ForbiddenException",
    "IllegalArgumentException",
    "NamespaceNotEmptyException",
    "NoSuchFunctionException",
    "NoSuchNamespaceException",
    "NoSuchPlanIdException",
    "NoSuchPlanTaskException",
    "NoSuchTableException",
    "NoSuchViewException",
    "NoSuchWarehouseException",
    "NotAuthorizedException",
    "NotFoundException",
    "ServiceFailureException",
    "ServiceUnavailableException",
    "UnprocessableEntityException",
    "UnsupportedOperationException",
}

RAISED = [
    kind for _, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, errors.FloecatError)
]


@pytest.mark.parametrize("kind", [*RAISED, UnsupportedMediaTypeError])
def test_every_error_of_the_kernel_has_a_kind(kind):
    described, _ = describe_error(kind("the text"), "id-1")
    if kind in {errors.FloecatError, errors.SettingsError}:
        assert (described.code, described.type) == (500, "InternalServerError")
        assert "the text" not in described.message
    else:
        assert described.message == "the text"
        assert described.type in KNOWN_TYPES


@pytest.mark.parametrize(
    ("error", "code", "kind"),
    [
        (errors.CommitFailedError("x"), 409, "CommitFailedException"),
        (errors.IdempotencyConflictError("x"), 409, "ConflictException"),
        (errors.CommitStateUnknownError("x"), 500, "CommitStateUnknownException"),
        (errors.InvalidMetadataError("x"), 400, "IllegalArgumentException"),
        (errors.LocationNotAllowedError("x"), 403, "ForbiddenException"),
        (errors.FileMissingError("x"), 404, "NotFoundException"),
        (errors.PayloadTooLargeError("x"), 413, "BadRequestException"),
        (MethodNotAllowedError("GET"), 405, "UnsupportedOperationException"),
        (ValueError("secret"), 500, "InternalServerError"),
    ],
)
def test_status_and_type(error, code, kind):
    described, _ = describe_error(error, "id-1")
    assert (described.code, described.type) == (code, kind)


def test_all_kinds_are_errors_with_a_body():
    assert all(400 <= kind.status < 600 for kind in ERROR_KINDS.values())


def test_an_unexpected_error_names_the_request_and_not_its_cause():
    described, _ = describe_error(RuntimeError("postgresql://user:secret@host"), "id-1")
    assert "id-1" in described.message
    assert "secret" not in described.message


def test_headers_that_tell_clients_what_to_do():
    assert describe_error(errors.NotAuthorizedError("x"), "")[1] == {"WWW-Authenticate": "Bearer"}
    refused = errors.InvalidTokenError('said "é\\" twice')
    assert describe_error(refused, "")[1] == {
        "WWW-Authenticate": 'Bearer error="invalid_token", error_description="said \'??\' twice"'
    }
    assert describe_error(errors.StoreUnavailableError("x", retry_after_s=7), "")[1] == {"Retry-After": "7"}
    assert describe_error(MethodNotAllowedError("GET, HEAD"), "")[1] == {"Allow": "GET, HEAD"}


def test_text_that_json_cannot_carry_is_replaced():
    body = json.loads(encode_error(ErrorModel("name \ud800", "BadRequestException", 400)))
    assert body == {"error": {"message": "name ?", "type": "BadRequestException", "code": 400}}


def test_a_message_that_repeats_a_long_name_is_cut():
    assert len(encode_error(ErrorModel("x" * 100_000, "BadRequestException", 400))) < 1200


@pytest.mark.parametrize(
    ("path", "hint"),
    [
        ("/v1/v1/config", "The URI of the catalog ends before /v1"),
        ("/v1/v1", "The URI of the catalog ends before /v1"),
        ("/v1/v1/namespaces", "The URI of the catalog ends before /v1"),
        ("/v1/v1/floecat/namespaces/n/tables/t", "The URI of the catalog ends before /v1"),
        ("/iceberg/v1/config", "The URI of the catalog ends before /iceberg, as paths begin with /v1"),
        (
            "/api/catalog/v1/config",
            "The URI of the catalog ends before /api/catalog, as paths begin with /v1",
        ),
        ("/config", "Paths of the catalog begin with /v1"),
        ("/namespaces/n/tables", "Paths of the catalog begin with /v1"),
        ("/v1/config/more", "/schema lists the paths that are served"),
        ("/management/v1/nothing", "/schema lists the paths that are served"),
        ("/v2/config", "/schema lists the paths that are served"),
    ],
)
def test_an_unknown_path_is_answered_with_what_is_meant(client, path, hint):
    answer = client.get(path)
    assert answer.status_code == 404
    assert answer.json()["error"] == {
        "message": f"Path does not exist: {path}. {hint}",
        "type": "NotFoundException",
        "code": 404,
    }


def test_a_catalog_may_have_the_name_of_the_version(client, opened_kernel, settings):
    opened_kernel.catalog.catalogs.ensure(
        settings.gateway.default_account_id, "v1", f"{settings.warehouse_location}/v1"
    )
    assert client.get("/v1/v1/namespaces").json()["namespaces"] == []
    client.delete("/management/v1/catalogs/v1").raise_for_status()


class Body:
    """A request's body, as far as it can be seen to be gone."""


def test_an_answered_error_keeps_nothing_of_its_request():
    def fail(body):
        try:
            raise ValueError(body)
        except ValueError:
            raise errors.BadRequestError("no") from None

    def handle():
        body, kept = Body(), []  # as the future of a thread keeps what it raised
        try:
            fail(body)
        except errors.BadRequestError as error:
            kept.append(error)
            answer_error({"type": "http", "method": "GET", "path": "/", "headers": []}, error)
        return weakref.ref(body)

    gc.disable()
    try:
        body = handle()
        assert body() is None
    finally:
        gc.enable()
