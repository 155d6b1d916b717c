"""The ``workbench`` command: writes the desired state, reads the observed one, and shows it."""

from workbench.cli.catalogue import main

__all__ = ["main"]
