"""Report the state of the compat layer in this interpreter, without importing Chainer."""

import platform
import sys
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version

from workbench.compat.finder import finder, incompatibility, patched
from workbench.compat.table import TABLE


@dataclass(frozen=True)
class Status:
    """What is installed, and which of Chainer's modules run with replacements.

    Attributes:
        installed: Whether the import hook is registered.
        python: Version of this interpreter.
        numpy: Version of the installed NumPy, or None.
        chainer: Version of the installed Chainer, or None.
        patched: Modules loaded with replacements so far, in order.
        known: How many modules have replacements at all.
        problem: Why ``import chainer`` fails, as a sentence, or None.
    """

    installed: bool
    python: str
    numpy: str | None
    chainer: str | None
    patched: tuple[str, ...]
    known: int
    problem: str | None

    def __repr__(self) -> str:
        hook = "" if self.installed else ", hook not installed"
        return (
            f"<Compat chainer {self.chainer} on Python {self.python}, NumPy {self.numpy}: "
            f"{len(self.patched)} of {self.known} modules patched{hook}>"
        )


def status() -> Status:
    """Return what is applied in this interpreter."""
    chainer = _find_version("chainer")
    return Status(
        installed=finder in sys.meta_path,
        python=platform.python_version(),
        numpy=_find_version("numpy"),
        chainer=chainer,
        patched=tuple(name for name in patched if name in TABLE),
        known=len(TABLE),
        problem=incompatibility(chainer) if chainer else None,
    )


def _find_version(distribution: str) -> str | None:
    try:
        return version(distribution)
    except PackageNotFoundError:
        return None
