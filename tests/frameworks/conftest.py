"""A run in this process, as the engine's tests have it."""

from tests.engine.conftest import current_run, folder, log, perform, printed, script, shell, taken

__all__ = ["current_run", "folder", "log", "perform", "printed", "script", "shell", "taken"]
