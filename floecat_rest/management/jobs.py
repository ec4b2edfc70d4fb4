"""Jobs of all kinds: the work behind the requests."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from litestar import get, post
from litestar.params import FromQuery, QueryParameter

from floecat_rest.http.options import WITHOUT_STORAGE
from floecat_rest.http.requests import CatalogRequest, PageSize, PageToken
from floecat_rest.management.controllers import (
    ManagementController,
    StateFilter,
    listed_size,
    path_id,
)
from floecat_rest.management.job_wire import JobResponse, ListJobsResponse, job_response

__all__ = [
    "CancelJobController",
    "JobController",
    "JobTreeController",
    "JobsController",
    "RetryJobController",
]

_JOBS = "/management/v1/catalogs/{catalog:str}/jobs"
_JOB = f"{_JOBS}/{{job:str}}"


class JobsController(ManagementController):
    """The jobs of a catalog."""

    path = _JOBS

    @get(operation_id="listJobs", sync_to_thread=True, opt={WITHOUT_STORAGE: True})
    def list_jobs(
        self,
        request: CatalogRequest,
        kinds: Annotated[
            list[str] | None,
            QueryParameter(name="kind", description="Kind of the jobs, such as `purge`; repeatable."),
        ] = None,
        states: StateFilter = None,
        entry: Annotated[
            str | None,
            QueryParameter(
                description="Title of the job: its table, as `A:B.name` or `A.B.name`, or connector."
            ),
        ] = None,
        parent: Annotated[
            UUID | None, QueryParameter(description="Id of the job that waits for those that are listed.")
        ] = None,
        page_token: PageToken = None,
        page_size: PageSize = None,
    ) -> ListJobsResponse:
        """Jobs, oldest first, at most 1,000; `parent` leads from one to those that it waits for."""
        found = request.kernel.jobs.page(
            request.call(),
            states or (),
            entry,
            page_token,
            listed_size(page_size),
            kinds=kinds or (),
            parent=parent,
        )
        return ListJobsResponse([job_response(each) for each in found.items], found.next_token)


class JobController(ManagementController):
    """A job."""

    path = _JOB

    @get(operation_id="loadJob", sync_to_thread=True, opt={WITHOUT_STORAGE: True})
    def load_job(self, request: CatalogRequest) -> JobResponse:
        """The job, how far it is, and those that it waits for."""
        return job_response(request.kernel.jobs.get(request.call(), path_id(request, "job", "Job")))


class JobTreeController(ManagementController):
    """A job with all below it."""

    path = f"{_JOB}/tree"

    @get(operation_id="loadJobTree", sync_to_thread=True, opt={WITHOUT_STORAGE: True})
    def load_job_tree(self, request: CatalogRequest) -> JobResponse:
        """The job, those that belong to it, and all below them; at most 10,000, level by level."""
        return job_response(request.kernel.jobs.tree(request.call(), path_id(request, "job", "Job")))


class RetryJobController(ManagementController):
    """Jobs that are worked on again."""

    path = f"{_JOB}/retry"

    @post(operation_id="retryJob", status_code=200, sync_to_thread=True, opt={WITHOUT_STORAGE: True})
    def retry_job(self, request: CatalogRequest, parts: FromQuery[bool] = False) -> JobResponse:
        """Makes a job due now that failed for good or was cancelled; with `parts` also those below it."""
        retried = request.kernel.jobs.retry(request.call(), path_id(request, "job", "Job"), parts=parts)
        return job_response(retried)


class CancelJobController(ManagementController):
    """Jobs that are not wanted after all."""

    path = f"{_JOB}/cancel"

    @post(operation_id="cancelJob", status_code=200, sync_to_thread=True, opt={WITHOUT_STORAGE: True})
    def cancel_job(self, request: CatalogRequest, force: FromQuery[bool] = False) -> JobResponse:
        """Cancels a job and all below it; with `force` also a purge that has begun."""
        cancelled = request.kernel.jobs.cancel(request.call(), path_id(request, "job", "Job"), force=force)
        return job_response(cancelled)
