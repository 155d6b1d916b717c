"""The REST handlers: they read facts and write wishes, and decide nothing."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from http import HTTPStatus
from typing import Any, TypeVar

from jupyter_server.auth.decorator import authorized
from jupyter_server.base.handlers import APIHandler
from tornado import web

from workbench.errors import (
    InputError,
    MachineError,
    PriceQuestion,
    StateError,
    Unknown,
    WorkbenchError,
)
from workbench.server import operations
from workbench.server.path_validation import holder_id, whole_number
from workbench.server.save_lock import TurnMessage, Turns
from workbench.server.subscriber import as_json
from workbench.server.workers import Workers
from workbench.store import Store
from workbench.surfaces import in_page

RESOURCE = "workbench"  # the resource for Jupyter's authorizer
CLUSTER = "clusters/([^/]+)"
RUN = "runs/([^/]+)"
_MOST_RUNS = 200
_MOST_BUCKETS = 4000
# The first that fits; all our other errors are the server's, not the client's.
_STATUS = {
    InputError: HTTPStatus.BAD_REQUEST,
    Unknown: HTTPStatus.NOT_FOUND,
    PriceQuestion: HTTPStatus.PAYMENT_REQUIRED,
    StateError: HTTPStatus.CONFLICT,
    MachineError: HTTPStatus.SERVICE_UNAVAILABLE,
    WorkbenchError: HTTPStatus.INTERNAL_SERVER_ERROR,
}

T = TypeVar("T")


class ErrorResponse(web.HTTPError):
    """An HTTP error with one of our messages."""

    def __init__(self, error: WorkbenchError) -> None:
        status = next(status for kind, status in _STATUS.items() if isinstance(error, kind))
        super().__init__(status)
        self.answer: dict[str, Any] = {"message": in_page(str(error)), "reason": RESOURCE}
        if isinstance(error, PriceQuestion):
            self.answer["price"] = error.price


class Handler(APIHandler):
    """The base class of our REST handlers."""

    auth_resource = RESOURCE

    def initialize(self, workers: Workers, turns: Turns) -> None:
        """Store the shared settings."""
        self._workers, self._turns = workers, turns

    async def _ask(self, question: Callable[[Store], T], *, draws: bool = False) -> T:
        try:
            return await self._workers.ask(question, draws=draws)
        except WorkbenchError as error:
            raise ErrorResponse(error) from error

    async def _answer(self, question: Callable[[Store], dict[str, Any]]) -> None:
        self.finish(as_json(await self._ask(question)))

    def _number(self, name: str, *bounds: int) -> int:
        try:
            return whole_number(name, self.get_query_argument(name, None), *bounds)
        except InputError as error:
            raise ErrorResponse(error) from error

    def write_error(self, status_code: int, **options: Any) -> None:
        """Mark our errors, unlike those of a server without this extension."""
        _, error, _ = options.get("exc_info", (None, None, None))
        if not isinstance(error, ErrorResponse):
            super().write_error(status_code, **options)
            return
        self.finish(as_json(error.answer))


class ClustersHandler(Handler):
    """All clusters."""

    @web.authenticated
    @authorized
    async def get(self) -> None:
        """Return them."""
        await self._answer(operations.clusters)


class ClusterHandler(Handler):
    """One cluster."""

    @web.authenticated
    @authorized
    async def put(self, name: str) -> None:
        """Wish for it to be up."""
        await self._answer(partial(operations.bring_up, name=name, body=self.request.body))

    @web.authenticated
    @authorized
    async def patch(self, name: str) -> None:
        """Wish for another size."""
        await self._answer(partial(operations.resize, name=name, body=self.request.body))

    @web.authenticated
    @authorized
    async def delete(self, name: str) -> None:
        """Wish for it to be gone."""
        await self._answer(partial(operations.take_down, name=name, body=self.request.body))


class ClusterStopHandler(Handler):
    """The runs of one cluster."""

    @web.authenticated
    @authorized
    async def post(self, name: str) -> None:
        """Wish for them to stop."""
        await self._answer(partial(operations.stop_all, name=name, body=self.request.body))


class ClusterRemoveHandler(Handler):
    """The entry of one cluster that is deleted."""

    @web.authenticated
    @authorized
    async def post(self, name: str) -> None:
        """Take it off all lists."""
        await self._answer(partial(operations.remove, name=name, body=self.request.body))


class ClusterExtendHandler(Handler):
    """The time to live of one cluster."""

    @web.authenticated
    @authorized
    async def post(self, name: str) -> None:
        """Wish for more of it."""
        await self._answer(partial(operations.extend, name=name, body=self.request.body))


class ClusterMeasureHandler(Handler):
    """A measurement of one cluster's links."""

    @web.authenticated
    @authorized
    async def post(self, name: str) -> None:
        """Wish for it."""
        await self._answer(partial(operations.measure, name=name, body=self.request.body))


class RunsHandler(Handler):
    """The newest runs."""

    @web.authenticated
    @authorized
    async def get(self) -> None:
        """Return them."""
        limit = self._number("limit", 1, _MOST_RUNS, 20)
        cluster = self.get_query_argument("cluster", None)
        await self._answer(partial(operations.runs, cluster=cluster, limit=limit))


class RunHandler(Handler):
    """One run."""

    @web.authenticated
    @authorized
    async def get(self, identity: str) -> None:
        """Return it."""
        await self._answer(partial(operations.run, identity=identity))


class RunStopHandler(Handler):
    """The end of one run."""

    @web.authenticated
    @authorized
    async def post(self, identity: str) -> None:
        """Wish for it."""
        await self._answer(partial(operations.stop, identity=identity, body=self.request.body))


class RunResumeHandler(Handler):
    """The next attempt of one run."""

    @web.authenticated
    @authorized
    async def post(self, identity: str) -> None:
        """Wish for it."""
        await self._answer(partial(operations.resume, identity=identity, body=self.request.body))


class AboutHandler(Handler):
    """What one run is made of."""

    @web.authenticated
    @authorized
    async def get(self, identity: str) -> None:
        """Return it."""
        await self._answer(partial(operations.about, identity=identity))


class SurveyHandler(Handler):
    """What one run measured of its cluster."""

    @web.authenticated
    @authorized
    async def get(self, identity: str) -> None:
        """Return it."""
        await self._answer(partial(operations.survey, identity=identity))


class BundleHandler(Handler):
    """What stays of a run in the notebook."""

    @web.authenticated
    @authorized
    async def get(self, identity: str) -> None:
        """Return it."""
        self.finish(await self._ask(partial(operations.bundle, identity=identity), draws=True))


class CurvesHandler(Handler):
    """A part of a run's curves."""

    @web.authenticated
    @authorized
    async def get(self, identity: str) -> None:
        """Return it as a frame."""
        first = self._number("first")
        last = self._number("last", first)
        buckets = self._number("buckets", 2, _MOST_BUCKETS)
        question = partial(
            operations.curves, identity=identity, first=first, last=last, buckets=buckets
        )
        self.finish(await self._ask(question), set_content_type="application/octet-stream")


class TurnHandler(Handler):
    """A page's turn at saving a notebook, in memory only."""

    @web.authenticated
    @authorized
    async def put(self, identity: str) -> None:
        """Take it, unless another page has it."""
        try:
            holder = holder_id(identity)
            path = await self._workers.do(partial(operations.notebook, self.request.body))
        except InputError as error:
            raise ErrorResponse(error) from error
        granted = self._turns.take(holder, path, time.monotonic())
        self.finish(as_json(asdict(TurnMessage(granted=granted))))

    @web.authenticated
    @authorized
    async def delete(self, identity: str) -> None:
        """End it."""
        self._turns.end(identity)
        self.set_status(HTTPStatus.NO_CONTENT)
        self.finish()


ROUTES = {
    "clusters": ClustersHandler,
    CLUSTER: ClusterHandler,
    f"{CLUSTER}/stop": ClusterStopHandler,
    f"{CLUSTER}/remove": ClusterRemoveHandler,
    f"{CLUSTER}/extend": ClusterExtendHandler,
    f"{CLUSTER}/measure": ClusterMeasureHandler,
    "runs": RunsHandler,
    RUN: RunHandler,
    f"{RUN}/stop": RunStopHandler,
    f"{RUN}/resume": RunResumeHandler,
    f"{RUN}/about": AboutHandler,
    f"{RUN}/survey": SurveyHandler,
    f"{RUN}/bundle": BundleHandler,
    f"{RUN}/curves": CurvesHandler,
    "turns/([^/]+)": TurnHandler,
}
