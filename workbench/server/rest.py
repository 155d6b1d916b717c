"""REST: facts are read and wishes are written; what they mean is decided elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable
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
from workbench.server import answers
from workbench.server.checks import holder_id, whole_number
from workbench.server.told import as_json
from workbench.server.turns import Turns
from workbench.server.workers import Workers
from workbench.store import Store

RESOURCE = "workbench"  # what an authorizer is asked about
CLUSTER = "clusters/([^/]+)"
RUN = "runs/([^/]+)"
_MOST_RUNS = 200
_MOST_BUCKETS = 4000
# The first that fits; of our other errors none can be mended by whoever asks.
_STATUS = {
    InputError: HTTPStatus.BAD_REQUEST,
    Unknown: HTTPStatus.NOT_FOUND,
    PriceQuestion: HTTPStatus.PAYMENT_REQUIRED,
    StateError: HTTPStatus.CONFLICT,
    MachineError: HTTPStatus.SERVICE_UNAVAILABLE,
    WorkbenchError: HTTPStatus.INTERNAL_SERVER_ERROR,
}

T = TypeVar("T")


class Refusal(web.HTTPError):
    """One of our errors, on its way to the page."""

    def __init__(self, error: WorkbenchError) -> None:
        status = next(status for kind, status in _STATUS.items() if isinstance(error, kind))
        super().__init__(status)
        self.told: dict[str, Any] = {"message": str(error), "reason": RESOURCE}
        if isinstance(error, PriceQuestion):
            self.told["price"] = error.price


class Handler(APIHandler):
    """What all our REST handlers have in common."""

    auth_resource = RESOURCE

    def initialize(self, workers: Workers, turns: Turns) -> None:
        """Take what the routes share."""
        self._workers, self._turns = workers, turns

    async def _ask(self, question: Callable[[Store], T], *, draws: bool = False) -> T:
        try:
            return await self._workers.ask(question, draws=draws)
        except WorkbenchError as error:
            raise Refusal(error) from error

    async def _answer(self, question: Callable[[Store], dict[str, Any]]) -> None:
        self.finish(as_json(await self._ask(question)))

    def _number(self, name: str, *bounds: int) -> int:
        try:
            return whole_number(name, self.get_query_argument(name, None), *bounds)
        except InputError as error:
            raise Refusal(error) from error

    def write_error(self, status_code: int, **options: Any) -> None:
        """Tell our errors from those of a server that lacks us."""
        _, error, _ = options.get("exc_info", (None, None, None))
        if not isinstance(error, Refusal):
            super().write_error(status_code, **options)
            return
        self.finish(as_json(error.told))


class ClustersHandler(Handler):
    """All clusters."""

    @web.authenticated
    @authorized
    async def get(self) -> None:
        """Return them."""
        await self._answer(answers.clusters)


class ClusterHandler(Handler):
    """One cluster."""

    @web.authenticated
    @authorized
    async def put(self, name: str) -> None:
        """Wish for it to be up."""
        await self._answer(partial(answers.bring_up, name=name, body=self.request.body))

    @web.authenticated
    @authorized
    async def patch(self, name: str) -> None:
        """Wish for another size."""
        await self._answer(partial(answers.resize, name=name, body=self.request.body))

    @web.authenticated
    @authorized
    async def delete(self, name: str) -> None:
        """Wish for it to be gone."""
        await self._answer(partial(answers.take_down, name=name, body=self.request.body))


class ClusterStopHandler(Handler):
    """The runs of one cluster."""

    @web.authenticated
    @authorized
    async def post(self, name: str) -> None:
        """Wish for them to stop."""
        await self._answer(partial(answers.stop_all, name=name, body=self.request.body))


class ClusterExtendHandler(Handler):
    """The time to live of one cluster."""

    @web.authenticated
    @authorized
    async def post(self, name: str) -> None:
        """Wish for more of it."""
        await self._answer(partial(answers.extend, name=name, body=self.request.body))


class ClusterMeasureHandler(Handler):
    """A measurement of one cluster's links."""

    @web.authenticated
    @authorized
    async def post(self, name: str) -> None:
        """Wish for it."""
        await self._answer(partial(answers.measure, name=name, body=self.request.body))


class RunsHandler(Handler):
    """The newest runs."""

    @web.authenticated
    @authorized
    async def get(self) -> None:
        """Return them."""
        limit = self._number("limit", 1, _MOST_RUNS, 20)
        cluster = self.get_query_argument("cluster", None)
        await self._answer(partial(answers.runs, cluster=cluster, limit=limit))


class RunHandler(Handler):
    """One run."""

    @web.authenticated
    @authorized
    async def get(self, identity: str) -> None:
        """Return it."""
        await self._answer(partial(answers.run, identity=identity))


class RunStopHandler(Handler):
    """The end of one run."""

    @web.authenticated
    @authorized
    async def post(self, identity: str) -> None:
        """Wish for it."""
        await self._answer(partial(answers.stop, identity=identity, body=self.request.body))


class SurveyHandler(Handler):
    """What one run measured of its cluster."""

    @web.authenticated
    @authorized
    async def get(self, identity: str) -> None:
        """Return it."""
        await self._answer(partial(answers.survey, identity=identity))


class BundleHandler(Handler):
    """What stays of a run in the notebook."""

    @web.authenticated
    @authorized
    async def get(self, identity: str) -> None:
        """Return it."""
        self.finish(await self._ask(partial(answers.bundle, identity=identity), draws=True))


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
            answers.curves, identity=identity, first=first, last=last, buckets=buckets
        )
        self.finish(await self._ask(question), set_content_type="application/octet-stream")


class TurnHandler(Handler):
    """A page's turn at saving a notebook, of which the store knows nothing."""

    @web.authenticated
    @authorized
    async def put(self, identity: str) -> None:
        """Take it, unless it is another's."""
        try:
            holder = holder_id(identity)
            path = await self._workers.do(partial(answers.notebook, self.request.body))
        except InputError as error:
            raise Refusal(error) from error
        self.finish(as_json({"granted": self._turns.take(holder, path, time.monotonic())}))

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
    f"{CLUSTER}/extend": ClusterExtendHandler,
    f"{CLUSTER}/measure": ClusterMeasureHandler,
    "runs": RunsHandler,
    RUN: RunHandler,
    f"{RUN}/stop": RunStopHandler,
    f"{RUN}/survey": SurveyHandler,
    f"{RUN}/bundle": BundleHandler,
    f"{RUN}/curves": CurvesHandler,
    "turns/([^/]+)": TurnHandler,
}
