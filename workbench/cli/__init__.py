"""The ``workbench`` command: writes wishes, reads facts, and shows them in a terminal."""

from workbench.cli.command import main

__all__ = ["main"]
