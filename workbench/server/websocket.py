"""The WebSocket handler for pages that follow a run; it decides nothing."""

from __future__ import annotations

import time
from asyncio import Future
from typing import Any

from jupyter_server.auth.decorator import authorized, ws_authenticated
from jupyter_server.base.handlers import JupyterHandler
from jupyter_server.base.websocket import WebSocketMixin
from tornado.websocket import WebSocketClosedError, WebSocketHandler

from workbench.errors import InputError, Unknown
from workbench.pages.protocol import UNKNOWN_RUN
from workbench.pages.requests import (
    FollowQuery,
    check_run_id,
    read_page_message,
    read_query,
)
from workbench.server.rest import RESOURCE
from workbench.server.run_feed import Feeds, FollowedRun
from workbench.server.subscriber import Subscriber, shorten_reason

MESSAGE_BYTES = 1_000
_WRONG = 1008  # the message was not valid


class FollowWebsocketHandler(WebSocketMixin, WebSocketHandler, JupyterHandler):
    """A page's connection."""

    auth_resource = RESOURCE
    max_message_size = MESSAGE_BYTES

    def initialize(self, feeds: Feeds) -> None:
        """Store the shared settings."""
        self._feeds = feeds
        self._page: Subscriber | None = None
        self._following: FollowedRun | None = None
        self._taken: Future[None] | None = None

    def set_default_headers(self) -> None:
        """Omit the headers of a document, as Jupyter's own WebSockets do."""

    def get_compression_options(self) -> dict[str, Any] | None:
        """Compress if this server is configured to."""
        options: dict[str, Any] | None = self.settings.get("websocket_compression_options")
        return options

    @ws_authenticated
    @authorized
    async def get(self, *arguments: Any, **options: Any) -> None:
        """Become a WebSocket."""
        await super().get(*arguments, **options)

    def open(self, identity: str) -> None:
        """Let the page follow the run, or close with the reason."""
        super().open(identity)
        try:
            run = check_run_id(identity)
            names = self.request.query_arguments
            asked = read_query(FollowQuery, {name: self.get_query_argument(name) for name in names})
        except Unknown as error:
            self.close(UNKNOWN_RUN, shorten_reason(str(error)))
        except InputError as error:
            self.close(_WRONG, shorten_reason(str(error)))
        else:
            now, stays = time.monotonic(), bool(asked.stay)
            self._page = Subscriber(
                self, asked.feed, asked.version, now, stays=stays, pace=self._feeds.pace
            )
            self._following = self._feeds.join(run, self._page)

    def on_message(self, message: str | bytes) -> None:
        """Handle a message from the page."""
        if self._page is None or self._following is None:
            return
        try:
            self._following.take(self._page, read_page_message(message))
        except InputError as error:
            self.close(_WRONG, shorten_reason(str(error)))

    def on_close(self) -> None:
        """Remove the page."""
        if self._page is not None and self._following is not None:
            self._following.leave(self._page)
        self._note()
        self._page = self._following = None  # Jupyter's ping holds the handler a little longer

    def deliver(self, data: str | bytes) -> Future[None]:
        """Send a message; the future is done when it is written, or the connection is closed."""
        taken: Future[None]
        try:
            taken = self.write_message(data, binary=isinstance(data, bytes))
        except WebSocketClosedError:
            taken = Future()
            taken.set_result(None)
        self._note()
        self._taken = taken
        return taken

    def _note(self) -> None:
        """Retrieve the exception of the last write; lost messages are sent after a reconnect."""
        taken, self._taken = self._taken, None
        if taken is not None and taken.done():
            _retrieve(taken)
        elif taken is not None:
            taken.add_done_callback(_retrieve)


def _retrieve(taken: Future[None]) -> None:
    """Retrieve the exception, or asyncio warns."""
    if not taken.cancelled():
        taken.exception()
