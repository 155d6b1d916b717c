"""Leave out what Chainer prints of an error that only follows from another rank's failure."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import Any

# The first and the last text of ``Trainer.run`` of Chainer 7.8.1 about an error in its loop.
_BEGINS, _ENDS = "Exception in main training loop", "Will finalize trainer extensions"


class _WithoutEchoes:
    """A stream without these messages; all else of it is the original's."""

    def __init__(self, stream: Any, is_echo: Callable[[BaseException], bool]) -> None:
        self._stream = stream
        self._is_echo = is_echo
        self._is_muted = False

    def write(self, text: str) -> int:
        if text.startswith(_BEGINS):
            error = sys.exc_info()[1]
            self._is_muted = error is not None and self._is_echo(error)
        elif self._is_muted and text.startswith(_ENDS):
            self._is_muted = False
            return len(text)
        return len(text) if self._is_muted else self._stream.write(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextlib.contextmanager
def without_echoes(is_echo: Callable[[BaseException], bool]) -> Iterator[None]:
    """Leave messages about echoes out of the standard error stream.

    The failed rank reports its own error, or a lost one none; the others' are of no use.

    Args:
        is_echo: Whether an error only follows from another rank's failure.
    """
    stream: Any = _WithoutEchoes(sys.stderr, is_echo)
    with contextlib.redirect_stderr(stream):
        yield
