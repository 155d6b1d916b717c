"""The REST interface: it serves the routes of ``pages.operations``."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

import msgspec
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
from workbench.pages.operations import ROUTES, Route
from workbench.pages.protocol import RefusalMessage, TurnMessage
from workbench.pages.requests import (
    NotebookRequest,
    Request,
    check_holder,
    read_body,
    read_query,
)
from workbench.server.workers import Workers
from workbench.surfaces import in_page

SAVE_LOCK_SECONDS = 30.0  # the longest time that a closed page can block others

RESOURCE = "workbench"  # the resource for Jupyter's authorizer
TURN = "turns/([^/]+)"
# The first that fits; all our other errors are the server's, not the client's.
_STATUS = {
    InputError: HTTPStatus.BAD_REQUEST,
    Unknown: HTTPStatus.NOT_FOUND,
    PriceQuestion: HTTPStatus.PAYMENT_REQUIRED,
    StateError: HTTPStatus.CONFLICT,
    MachineError: HTTPStatus.SERVICE_UNAVAILABLE,
    WorkbenchError: HTTPStatus.INTERNAL_SERVER_ERROR,
}

Served = tuple[str, type[APIHandler], dict[str, Any]]


class ErrorResponse(web.HTTPError):
    """An HTTP error with one of our messages."""

    def __init__(self, error: WorkbenchError) -> None:
        status = next(status for kind, status in _STATUS.items() if isinstance(error, kind))
        super().__init__(status)
        price = error.price if isinstance(error, PriceQuestion) else None
        self.answer = RefusalMessage(message=in_page(str(error)), price=price)


class RestHandler(APIHandler):
    """The base class of our REST handlers."""

    auth_resource = RESOURCE

    def write_error(self, status_code: int, **options: Any) -> None:
        """Mark our errors, unlike those of a server without this extension."""
        _, error, _ = options.get("exc_info", (None, None, None))
        if not isinstance(error, ErrorResponse):
            super().write_error(status_code, **options)
            return
        self.finish(msgspec.json.encode(error.answer))


class RouteHandler(RestHandler):
    """The routes of one path."""

    def initialize(self, routes: Iterable[Route], workers: Workers) -> None:
        """Store the shared settings."""
        self._routes = {route.method: route for route in routes}
        self._workers = workers

    @web.authenticated
    @authorized
    async def _serve(self, *groups: str) -> None:
        method = self.request.method or ""
        if method not in self._routes:
            raise web.HTTPError(HTTPStatus.METHOD_NOT_ALLOWED)
        route = self._routes[method]
        try:
            request = self._read(route)
            given = groups if route.request is Request else (*groups, request)
            answer = await self._workers.ask(
                lambda store: route.operation(store, *given), draws=route.draws
            )
        except WorkbenchError as error:
            raise ErrorResponse(error) from error
        if isinstance(answer, bytes):
            self.finish(answer, set_content_type="application/octet-stream")
        else:
            self.finish(msgspec.json.encode(answer))

    def _read(self, route: Route) -> Request:
        if route.method != "GET":
            return read_body(route.request, self.request.body)
        query = {name: self.get_query_argument(name) for name in self.request.query_arguments}
        return read_query(route.request, query)

    get = post = put = patch = delete = _serve


class SaveLockHandler(RestHandler):
    """A page's turn at saving a notebook, in memory only."""

    def initialize(self, turns: SaveLocks) -> None:
        """Store the shared settings."""
        self._turns = turns

    @web.authenticated
    @authorized
    async def put(self, identity: str) -> None:
        """Take it, unless another page has it."""
        try:
            holder = check_holder(identity)
            path = read_body(NotebookRequest, self.request.body).path
        except InputError as error:
            raise ErrorResponse(error) from error
        granted = self._turns.take(holder, path, time.monotonic())
        self.finish(msgspec.json.encode(TurnMessage(granted=granted)))

    @web.authenticated
    @authorized
    async def delete(self, identity: str) -> None:
        """End it."""
        self._turns.end(identity)
        self.set_status(HTTPStatus.NO_CONTENT)
        self.finish()


def rest_handlers(workers: Workers, turns: SaveLocks) -> list[Served]:
    """Return the paths with their handlers and settings."""
    served: list[Served] = [(TURN, SaveLockHandler, {"turns": turns})]
    for path in dict.fromkeys(route.path for route in ROUTES):
        routes = [route for route in ROUTES if route.path == path]
        served.append((path, RouteHandler, {"routes": routes, "workers": workers}))
    return served


@dataclass(frozen=True)
class SaveLock:
    """The holder of the lock, and when it expires."""

    holder: str
    until: float


class SaveLocks:
    """The locks of all notebooks, so that no two pages save one at the same time.

    A page checks the file before it saves. Two that save at once would each find the file changed
    by the other, and ask the user about it. Times are seconds of any clock.
    """

    def __init__(self) -> None:
        self.seconds = SAVE_LOCK_SECONDS
        self._turns: dict[str, SaveLock] = {}

    def __repr__(self) -> str:
        return f"<SaveLocks at {len(self._turns)} notebooks>"

    def take(self, holder: str, path: str, now: float) -> bool:
        """Take the lock of a notebook for ``holder``; return False if another has it."""
        self._turns = {path: turn for path, turn in self._turns.items() if turn.until > now}
        turn = self._turns.setdefault(path, SaveLock(holder, now + self.seconds))
        return turn.holder == holder

    def end(self, holder: str) -> None:
        """Release all locks of ``holder``."""
        self._turns = {path: turn for path, turn in self._turns.items() if turn.holder != holder}
