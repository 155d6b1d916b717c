"""Add our routes to a Jupyter server, and close them with it; it does not read the store."""

from __future__ import annotations

from jupyter_server.extension.application import ExtensionApp

from workbench.pages.operations import RUN
from workbench.server.rest import SaveLocks, rest_handlers
from workbench.server.run_feed import Feeds
from workbench.server.websocket import FollowWebsocketHandler
from workbench.server.workers import Workers

ROOT = "/workbench/api"


class WorkbenchExtension(ExtensionApp):
    """The extension's class, which Jupyter's server loads and stops."""

    name = "workbench"

    def initialize_handlers(self) -> None:
        """Add the routes and their shared settings."""
        self.workers = Workers()
        self.feeds, self.turns = Feeds(self.workers, self.log), SaveLocks()
        for path, handler, settings in rest_handlers(self.workers, self.turns):
            self.handlers.append((f"{ROOT}/{path}", handler, settings))
        self.handlers.append(
            (f"{ROOT}/{RUN}/follow", FollowWebsocketHandler, {"feeds": self.feeds})
        )

    async def stop_extension(self) -> None:
        """Close the connections of all pages, and end the threads."""
        await self.feeds.close()
        self.workers.close()
