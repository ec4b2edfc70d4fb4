"""Grants and owners; who may do what in the account of the one who asks, and why."""

from __future__ import annotations

from typing import Annotated, Final

from litestar import get, post
from litestar.params import QueryParameter, RawBody

from floecat.auth.principals import Principal
from floecat.errors import BadRequestError
from floecat_rest.http.options import WITHOUT_STORAGE
from floecat_rest.http.requests import CatalogRequest, PageSize, PageToken, path_name
from floecat_rest.management.access_wire import (
    ExplanationResponse,
    GrantRequest,
    HistoryResponse,
    ListGrantsResponse,
    OwnAccessResponse,
    OwnerRequest,
    OwnerResponse,
    PrivilegesResponse,
    WhoResponse,
    grants_response,
    history_response,
    own_access_response,
    parse_privilege,
    parse_securable,
    who_response,
)
from floecat_rest.management.controllers import ManagementController, listed_size

__all__ = ["ACCESS_CONTROLLERS"]

_ACCESS: Final = "/management/v1/access"

On = Annotated[
    str,
    QueryParameter(
        name="on",
        description="As `account`, `catalog:lake`, `namespace:lake.outer.inner`, `table:lake.outer.orders`."
        " By default the account.",
    ),
]
Grantee = Annotated[
    str | None,
    QueryParameter(name="grantee", description="As `principal:NAME`, `role:NAME` or `group:NAME`."),
]
OptionalPrivilege = Annotated[
    str | None, QueryParameter(name="privilege", description="Only those who have this one.")
]
OfPrincipal = Annotated[
    str | None, QueryParameter(name="principal", description="Its name. By default the one who asks.")
]
OfGroups = Annotated[
    list[str] | None,
    QueryParameter(name="group", description="A group that its token would name; repeatable."),
]


class GrantsController(ManagementController):
    """Grants."""

    path = f"{_ACCESS}/grants"

    @get(operation_id="listGrants", sync_to_thread=True, opt={WITHOUT_STORAGE: True})
    def list_grants(
        self,
        request: CatalogRequest,
        on: On = "",
        grantee: Grantee = None,
        page_token: PageToken = None,
        page_size: PageSize = None,
    ) -> ListGrantsResponse:
        """The grants on a thing itself, or to a grantee anywhere; at most 1,000.

        Needs `read_access` on the thing, or on the account.
        """
        questions, size = request.kernel.access.questions, listed_size(page_size)
        if grantee is None:
            thing = parse_securable(on or "account")
            return grants_response(questions.grants_on(request.actor, thing, page_token, size))
        if on:
            raise BadRequestError("Send one of the parameters on and grantee")
        return grants_response(questions.grants_to(request.actor, grantee, page_token, size))

    @post(operation_id="grant", status_code=200, sync_to_thread=True, opt={WITHOUT_STORAGE: True})
    def grant(self, request: CatalogRequest, body: RawBody) -> PrivilegesResponse:
        """Grants privileges on a thing and all that is in it; answers those that are new.

        Needs `manage_grants` on the thing, and each privilege that is granted.
        """
        sent = request.read(body, GrantRequest)
        on = parse_securable(sent.on)
        return PrivilegesResponse(
            request.kernel.access.access.grant(request.actor, sent.privileges, on, sent.grantee)
        )


class RevocationsController(ManagementController):
    """Revocations."""

    path = f"{_ACCESS}/grants/revoke"

    @post(operation_id="revoke", status_code=200, sync_to_thread=True, opt={WITHOUT_STORAGE: True})
    def revoke(self, request: CatalogRequest, body: RawBody) -> PrivilegesResponse:
        """Takes back what was granted on a thing itself; answers what was. Needs `manage_grants` on it."""
        sent = request.read(body, GrantRequest)
        on = parse_securable(sent.on)
        return PrivilegesResponse(
            request.kernel.access.access.revoke(request.actor, sent.privileges, on, sent.grantee)
        )


class OwnerController(ManagementController):
    """Owners of catalogs, namespaces, tables and views."""

    path = f"{_ACCESS}/owner"

    @get(operation_id="loadOwner", sync_to_thread=True, opt={WITHOUT_STORAGE: True})
    def load_owner(self, request: CatalogRequest, on: On = "account") -> OwnerResponse:
        """The owner of a thing. Needs `read_access` on it."""
        return OwnerResponse(on, request.kernel.access.questions.owner(request.actor, parse_securable(on)))

    @post(operation_id="replaceOwner", status_code=200, sync_to_thread=True, opt={WITHOUT_STORAGE: True})
    def replace_owner(self, request: CatalogRequest, body: RawBody) -> OwnerResponse:
        """Gives a thing to another owner. Needs all privileges on it, as its owner has them."""
        sent = request.read(body, OwnerRequest)
        request.kernel.access.access.set_owner(request.actor, parse_securable(sent.on), sent.owner)
        return OwnerResponse(sent.on, sent.owner)


class AccessExplanationController(ManagementController):
    """Explanations."""

    path = f"{_ACCESS}/explain/{{privilege:str}}"

    @get(operation_id="explainAccess", sync_to_thread=True, opt={WITHOUT_STORAGE: True})
    def explain_access(
        self,
        request: CatalogRequest,
        on: On = "account",
        principal: OfPrincipal = None,
        group: OfGroups = None,
    ) -> ExplanationResponse:
        """Explains why a principal may do something, or what it lacks.

        Needs `read_access` on the thing; everybody may ask about itself.
        """
        who = request.principal
        if principal is not None:
            who = Principal(principal, who.account_id, groups=tuple(group or ()))
        elif group:
            raise BadRequestError("The parameter group needs the parameter principal")
        questions = request.kernel.access.questions
        privilege = path_name(request, "privilege")
        return ExplanationResponse.of(
            questions.explain(request.actor, who, parse_privilege(privilege), parse_securable(on))
        )


class HoldersController(ManagementController):
    """Those who may do something with a thing."""

    path = f"{_ACCESS}/who"

    @get(operation_id="listHolders", sync_to_thread=True, opt={WITHOUT_STORAGE: True})
    def list_holders(
        self,
        request: CatalogRequest,
        on: On = "account",
        privilege: OptionalPrivilege = None,
        page_size: PageSize = None,
    ) -> WhoResponse:
        """Who may do something with a thing, and through what; at most 1,000. Needs `read_access` on it."""
        limit = listed_size(page_size)
        wanted = None if privilege is None else parse_privilege(privilege)
        found = request.kernel.access.questions.who(request.actor, parse_securable(on), wanted, limit + 1)
        return who_response(found, limit)


class AccessHistoryController(ManagementController):
    """The history of access."""

    path = f"{_ACCESS}/history"

    @get(operation_id="listAccessChanges", sync_to_thread=True, opt={WITHOUT_STORAGE: True})
    def list_access_changes(
        self, request: CatalogRequest, page_token: PageToken = None, page_size: PageSize = None
    ) -> HistoryResponse:
        """The changes of access, the newest first; at most 1,000. Needs `read_access` on the account."""
        found = request.kernel.access.questions.history(request.actor, page_token, listed_size(page_size))
        return history_response(found)


class OwnAccessController(ManagementController):
    """The one who asks."""

    path = f"{_ACCESS}/me"

    @get(operation_id="loadOwnAccess", sync_to_thread=True, opt={WITHOUT_STORAGE: True})
    def load_own_access(self, request: CatalogRequest, on: On = "account") -> OwnAccessResponse:
        """Groups and roles of the one who asks, and what it may do with a thing, by default the account."""
        found = request.kernel.access.questions.own(request.actor, parse_securable(on))
        return own_access_response(found)


ACCESS_CONTROLLERS: Final = (
    GrantsController,
    RevocationsController,
    OwnerController,
    AccessExplanationController,
    HoldersController,
    AccessHistoryController,
    OwnAccessController,
)
