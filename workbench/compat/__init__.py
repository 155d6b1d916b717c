"""Run unmodified Chainer 7.8.1 on today's Python, NumPy and CuPy, without touching NumPy.

Importing this package registers an import hook; it costs next to nothing until Chainer is imported.
"""

import sys

from workbench.compat.finder import CompatError, install, uninstall

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing itself would triple what every interpreter pays at start-up
    from workbench.compat.state import Status, status

__all__ = ["CompatError", "Status", "explain", "install", "status", "uninstall"]

REMEDY = (
    "an array is float64 where the model's parameters are float32 "
    "(with NumPy 2, a float32 array combined with a float64 scalar becomes float64): "
    "pass x.astype('float32'), or set chainer.global_config.dtype = numpy.dtype('float64') "
    "before the model is built."
)


def __getattr__(name: str) -> object:
    if name in ("Status", "status"):
        from workbench.compat import state

        return getattr(state, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def explain(exc: BaseException) -> str | None:
    """Return one sentence with the remedy if ``exc`` is Chainer's type error for float64 data.

    Args:
        exc: Any exception; Chainer's ``InvalidType`` is recognised by name.
    """
    if not any(
        cls.__name__ == "InvalidType" and cls.__module__ == "chainer.utils.type_check"
        for cls in type(exc).__mro__
    ):
        return None
    found = str(getattr(exc, "actual", exc))
    if "float64" in found and "float32" in found:
        return f"{found}: {REMEDY}"
    return None


def _refuse(shell: object) -> None:
    from workbench.namesake import require_own_package

    require_own_package()


install()
# Of another project that has overwritten ours: `%load_ext workbench` says so.
_package = sys.modules["workbench"]
if not hasattr(_package, "load_ipython_extension"):
    setattr(_package, "load_ipython_extension", _refuse)  # noqa: B010  # it is no attribute of ours
