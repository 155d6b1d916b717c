"""The Jupyter server extension: clusters and runs by REST, points and output by WebSocket."""

from __future__ import annotations

from typing import Any

from workbench import __version__

__all__ = ["__version__"]  # Jupyter shows it beside the extension


def _jupyter_server_extension_points() -> list[dict[str, Any]]:
    from workbench.server.extension import WorkbenchExtension

    return [{"module": "workbench.server", "app": WorkbenchExtension}]
