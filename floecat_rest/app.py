"""The ASGI application."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING

from litestar import Litestar

from floecat.runtime import Kernel, open_kernel
from floecat.settings import Settings
from floecat.struct_types import prepare_struct_types
from floecat_rest.front_page import FrontPageController
from floecat_rest.gravitino.access import GRAVITINO_ACCESS_CONTROLLERS
from floecat_rest.gravitino.errors import GRAVITINO_PATHS, gravitino_error
from floecat_rest.gravitino.metalakes import METALAKE_CONTROLLERS, check_metalake
from floecat_rest.gravitino.schemas import GravitinoSchemaController, GravitinoSchemasController
from floecat_rest.http.browsers import guard_browsers
from floecat_rest.http.dispatch import Dispatcher
from floecat_rest.http.paths import RawPaths
from floecat_rest.http.request_log import RequestLog
from floecat_rest.http.requests import CatalogRequest, HttpServices
from floecat_rest.iceberg.config import ConfigController, served_endpoints
from floecat_rest.iceberg.credentials import CredentialsController
from floecat_rest.iceberg.fast_loads import FastLoadAnswers
from floecat_rest.iceberg.functions import FunctionController, FunctionsController
from floecat_rest.iceberg.kept_lists import KeptListAnswers
from floecat_rest.iceberg.metrics import MetricsController
from floecat_rest.iceberg.namespaces import (
    NamespaceController,
    NamespacePropertiesController,
    NamespacesController,
)
from floecat_rest.iceberg.oauth import OAuthController
from floecat_rest.iceberg.scan_planning import PlanController, PlansController, ScanTasksController
from floecat_rest.iceberg.signing import SignByObjectController, SignController
from floecat_rest.iceberg.tables import (
    RegisterTableController,
    RenameTableController,
    TableController,
    TablesController,
    UnregisterTableController,
)
from floecat_rest.iceberg.transactions import TransactionController
from floecat_rest.iceberg.views import (
    RegisterViewController,
    RenameViewController,
    ViewController,
    ViewsController,
)
from floecat_rest.management.access import ACCESS_CONTROLLERS
from floecat_rest.management.accounts import AccountController, AccountsController
from floecat_rest.management.captures import (
    CancelCaptureController,
    CaptureController,
    CapturePolicyController,
    CapturesController,
    CatalogCapturePolicyController,
    TableCapturesController,
)
from floecat_rest.management.catalogs import ManagedCatalogController, ManagedCatalogsController
from floecat_rest.management.connectors import (
    ConnectorAdoptionController,
    ConnectorController,
    ConnectorDifferencesController,
    ConnectorScanController,
    ConnectorsController,
    ConnectorStartController,
    ConnectorValidationController,
    ReconcileSettingsController,
)
from floecat_rest.management.health import HealthController, MetricsPageController
from floecat_rest.management.job_metrics import count_purge
from floecat_rest.management.jobs import (
    CancelJobController,
    JobController,
    JobsController,
    JobTreeController,
    RetryJobController,
)
from floecat_rest.management.marks import PROTECTIONS, DefinerController
from floecat_rest.management.principals import PrincipalController, PrincipalsController
from floecat_rest.management.purges import (
    CancelPurgeController,
    PurgeController,
    PurgesController,
    RetryPurgeController,
)
from floecat_rest.management.refusals import RefusalsController
from floecat_rest.management.roles import (
    BuiltInRolesController,
    RoleController,
    RoleMembersController,
    RolesController,
)
from floecat_rest.management.statistics import (
    ConstraintBundlesController,
    ConstraintsController,
    IndexArtifactController,
    IndexArtifactsController,
    StatisticsController,
    TargetStatisticsController,
)
from floecat_rest.management.storage.authorities import AuthoritiesController, AuthorityController
from floecat_rest.management.tables import ExplainController, ManagedTablesController
from floecat_rest.openapi.descriptions import Descriptions
from floecat_rest.openapi.schema_pages import SchemaController
from floecat_rest.process.process_metrics import ProcessMetrics

if TYPE_CHECKING:
    from litestar.types import ASGIApp, ControllerRouterHandler

__all__ = ["CONTROLLERS", "create_app"]

CONTROLLERS: list[ControllerRouterHandler] = [
    ConfigController,
    NamespacesController,
    NamespaceController,
    NamespacePropertiesController,
    TablesController,
    TableController,
    UnregisterTableController,
    SignController,
    SignByObjectController,
    RegisterTableController,
    RenameTableController,
    MetricsController,
    CredentialsController,
    PlansController,
    PlanController,
    ScanTasksController,
    TransactionController,
    ViewsController,
    ViewController,
    RegisterViewController,
    RenameViewController,
    FunctionsController,
    FunctionController,
    OAuthController,
    AccountsController,
    AccountController,
    ManagedCatalogsController,
    ManagedCatalogController,
    ManagedTablesController,
    ExplainController,
    StatisticsController,
    TargetStatisticsController,
    ConstraintsController,
    ConstraintBundlesController,
    IndexArtifactController,
    IndexArtifactsController,
    TableCapturesController,
    CapturePolicyController,
    CatalogCapturePolicyController,
    CapturesController,
    CaptureController,
    CancelCaptureController,
    *PROTECTIONS,
    DefinerController,
    RefusalsController,
    ConnectorsController,
    ConnectorAdoptionController,
    ConnectorController,
    ConnectorDifferencesController,
    ConnectorScanController,
    ConnectorStartController,
    ConnectorValidationController,
    ReconcileSettingsController,
    JobsController,
    JobController,
    JobTreeController,
    RetryJobController,
    CancelJobController,
    PurgesController,
    PurgeController,
    RetryPurgeController,
    CancelPurgeController,
    PrincipalsController,
    PrincipalController,
    RolesController,
    BuiltInRolesController,
    RoleController,
    RoleMembersController,
    *ACCESS_CONTROLLERS,
    AuthoritiesController,
    AuthorityController,
    *METALAKE_CONTROLLERS,
    GravitinoSchemasController,
    GravitinoSchemaController,
    *GRAVITINO_ACCESS_CONTROLLERS,
    HealthController,
    MetricsPageController,
    SchemaController,
    FrontPageController,
]
"""Controllers, one per path: the framework refuses two."""


def create_app(settings: Settings, kernel: Kernel | None = None) -> ASGIApp:
    """Builds the application.

    Args:
        kernel: an open one, which the caller closes; None opens one at startup and closes it at shutdown.

    Returns:
        The application, for an ASGI server.

    Raises:
        SettingsError: `auth-mode=oidc` has no usable source of keys.
    """
    services = HttpServices(settings, kernel)
    app = Litestar(
        route_handlers=CONTROLLERS,
        request_class=CatalogRequest,
        lifespan=[_lifespan(services)],
        openapi_config=None,
        logging_config=None,
    )
    services.descriptions = Descriptions(app.routes, settings.gateway)
    services.endpoints = served_endpoints(app.routes)
    dispatcher = Dispatcher(
        app,
        services,
        error_forms=dict.fromkeys(GRAVITINO_PATHS, gravitino_error),
        checks={"metalake": check_metalake},
    )
    loads = FastLoadAnswers(dispatcher, services, path_template=_template(TableController.path))
    lists: list[tuple[str | None, str]] = [
        ("tables", TablesController.path),
        ("views", ViewsController.path),
        ("schemas", GravitinoSchemasController.path),
        (None, NamespacesController.path),
    ]
    templates = {kind: _template(path) for kind, path in lists}
    kept = KeptListAnswers(loads, services, templates=templates, error_form=dispatcher.error_form)
    guarded = guard_browsers(
        kept, settings.gateway, forms=OAuthController.path, error_form=dispatcher.error_form
    )
    # the log gets raw paths, which hold no line breaks, of refused requests too
    return RequestLog(RawPaths(guarded, default_prefix=settings.gateway.default_prefix))


def _template(path: str) -> str:
    """A path as the framework labels it, without the types of its parameters."""
    return re.sub(r":\w+}", "}", path)


def _lifespan(services: HttpServices) -> Callable[[Litestar], AbstractAsyncContextManager[None]]:
    @asynccontextmanager
    async def lifespan(_: Litestar) -> AsyncIterator[None]:
        threads = services.threads
        is_own = services.kernel is None
        kernel = services.kernel = services.kernel or open_kernel(services.settings)
        # those of the routes too, which did not exist when the kernel was opened
        prepare_struct_types()
        if is_own:
            kernel.listeners.add(count_purge)
            kernel.background.start()
        services.process_metrics = ProcessMetrics(kernel, services.memory, threads)
        updates = asyncio.create_task(services.process_metrics.run())
        try:
            with kernel.store.reading_at_once() as threads.reads_at_once:
                yield
        finally:
            updates.cancel()
            threads.shutdown()
            services.readiness.close()
            services.gauges.close()
            if is_own:
                services.kernel = None
                kernel.close()

    return lifespan
