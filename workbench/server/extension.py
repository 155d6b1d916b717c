"""Add our routes to a Jupyter server, and take them down with it; it asks nothing of the store."""

from __future__ import annotations

from jupyter_server.extension.application import ExtensionApp

from workbench.server.feeds import Feeds
from workbench.server.follow import FollowHandler
from workbench.server.rest import ROUTES, RUN
from workbench.server.turns import Turns
from workbench.server.workers import Workers

ROOT = "/workbench/api"


class WorkbenchExtension(ExtensionApp):
    """The extension, as Jupyter's server loads and stops it."""

    name = "workbench"

    def initialize_handlers(self) -> None:
        """Add the routes, and what they share."""
        self._workers = Workers()
        self._feeds = Feeds(self._workers, self.log)
        shared = {"workers": self._workers, "turns": Turns()}
        for route, handler in ROUTES.items():
            self.handlers.append((f"{ROOT}/{route}", handler, shared))
        self.handlers.append((f"{ROOT}/{RUN}/follow", FollowHandler, {"feeds": self._feeds}))

    async def stop_extension(self) -> None:
        """Say goodbye to the pages, and end the threads."""
        await self._feeds.close()
        self._workers.close()
