"""The route where clients get new keys to the storage of a table."""

from __future__ import annotations

import msgspec
from litestar import Controller, get

from floecat_rest.http.documents import NO_STORE, credentials_json
from floecat_rest.http.json_responses import Answer
from floecat_rest.http.requests import CatalogRequest

__all__ = ["CredentialsController"]


class CredentialsController(Controller):
    """Keys to the storage of a table."""

    path = "/v1/{prefix:str}/namespaces/{namespace:str}/tables/{table:str}/credentials"
    tags = ["Tables"]

    @get(operation_id="loadCredentials", sync_to_thread=True)
    def load_credentials(self, request: CatalogRequest) -> Answer:
        """Keys for the files of the table, whatever plan they are for; none where no authority makes some."""
        call = request.call()
        name = request.entry(call)
        reading = request.through_views(call, "table", name)
        asks = msgspec.structs.replace(reading, delegation=frozenset({"keys"}))
        found = request.kernel.catalog.loader.credentials(asks, name)
        return Answer(200, b"{%b}" % credentials_json(found), [NO_STORE])
