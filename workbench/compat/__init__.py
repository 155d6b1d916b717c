"""Run unmodified Chainer 7.8.1 on today's Python, NumPy and CuPy, without touching NumPy.

Importing this package registers an import hook; it costs next to nothing until Chainer is imported.
"""

from workbench.compat.finder import CompatError, install, uninstall

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing itself would triple what every interpreter pays at start-up
    from workbench.compat.diagnosis import explain
    from workbench.compat.state import Status, status

__all__ = ["CompatError", "Status", "explain", "install", "status", "uninstall"]


def __getattr__(name: str) -> object:
    if name in ("Status", "status"):
        from workbench.compat import state

        return getattr(state, name)
    if name == "explain":
        from workbench.compat.diagnosis import explain

        return explain
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


install()
