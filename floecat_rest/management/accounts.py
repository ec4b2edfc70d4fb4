"""Accounts, for the operators of the service."""

from __future__ import annotations

from typing import Final

from litestar import delete, get, post
from litestar.params import RawBody

from floecat_rest.http.options import WITHOUT_STORAGE
from floecat_rest.http.requests import CatalogRequest, PageSize, PageToken, path_name
from floecat_rest.management.catalog_wire import (
    AccountResponse,
    CreateAccountRequest,
    DescribedAccount,
    ListAccountsResponse,
    UpdateAccountRequest,
)
from floecat_rest.management.controllers import ManagementController, listed_size

__all__ = ["AccountController", "AccountsController"]

_ACCOUNTS: Final = "/management/v1/accounts"


class AccountsController(ManagementController):
    """The accounts of the service."""

    path = _ACCOUNTS

    @get(operation_id="listAccounts", sync_to_thread=True, opt={WITHOUT_STORAGE: True})
    def list_accounts(
        self, request: CatalogRequest, page_token: PageToken = None, page_size: PageSize = None
    ) -> ListAccountsResponse:
        """The accounts, by name; at most 1,000. Needs the group `floecat.auth.service-operators`."""
        accounts = request.kernel.access.accounts_for(request.principal)
        found, token = accounts.page(page_token, listed_size(page_size))
        return ListAccountsResponse([AccountResponse.of(each) for each in found], token)

    @post(operation_id="createAccount", status_code=201, sync_to_thread=True, opt={WITHOUT_STORAGE: True})
    def create_account(self, request: CatalogRequest, body: RawBody) -> AccountResponse:
        """Creates an account. Needs the group `floecat.auth.service-operators`."""
        accounts = request.kernel.access.accounts_for(request.principal)
        sent = request.read(body, CreateAccountRequest)
        return AccountResponse.of(accounts.create(sent.name, sent.id))


class AccountController(ManagementController):
    """An account, by name or id."""

    path = f"{_ACCOUNTS}/{{account:str}}"

    @get(operation_id="loadAccount", sync_to_thread=True, opt={WITHOUT_STORAGE: True})
    def load_account(self, request: CatalogRequest) -> DescribedAccount:
        """The account and how much is in it. Needs the group `floecat.auth.service-operators`."""
        accounts = request.kernel.access.accounts_for(request.principal)
        return DescribedAccount.of(accounts.describe(path_name(request, "account")))

    @post(operation_id="updateAccount", status_code=200, sync_to_thread=True, opt={WITHOUT_STORAGE: True})
    def update_account(self, request: CatalogRequest, body: RawBody) -> AccountResponse:
        """Disables or enables the account. Needs the group `floecat.auth.service-operators`."""
        accounts = request.kernel.access.accounts_for(request.principal)
        sent = request.read(body, UpdateAccountRequest)
        changed = accounts.set_disabled(path_name(request, "account"), disabled=sent.disabled)
        return AccountResponse.of(changed)

    @delete(operation_id="dropAccount", sync_to_thread=True, opt={WITHOUT_STORAGE: True})
    def drop_account(self, request: CatalogRequest) -> None:
        """Deletes an account that is empty. Needs the group `floecat.auth.service-operators`."""
        request.kernel.access.accounts_for(request.principal).delete(path_name(request, "account"))
