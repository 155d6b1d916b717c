"""A cell's changes of its process are reverted where they would harm the next cell."""

from __future__ import annotations

import signal
import sys

import pytest

CHANGES = [
    "import signal\nsignal.setitimer(signal.ITIMER_REAL, 50)",
    "import signal\nsignal.setitimer(signal.ITIMER_PROF, 100)",
    "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)",
    "import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)",
    "import signal\nsignal.signal(signal.SIGALRM, print)\nsignal.alarm(50)",
    "import io, sys\nsys.stdout = io.StringIO()",
    "import io, sys\nsys.stderr = None",
    "import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n1 / 0",
]


def _state() -> tuple[object, ...]:
    handlers = [signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM, signal.SIGALRM)]
    # The test's own timeout is one of them.
    timers = [round(signal.getitimer(n)[0]) for n in (signal.ITIMER_REAL, signal.ITIMER_PROF)]
    return sys.stdin, sys.stdout, sys.stderr, handlers, timers


@pytest.mark.parametrize("source", CHANGES)
def test_what_would_hurt_the_next_cell_is_put_back(perform, source) -> None:
    before = _state()

    perform(source)

    assert _state() == before


def test_the_next_cell_prints(perform, printed) -> None:
    perform("import io, sys\nsys.stdout = io.StringIO()")

    perform("print('heard')")

    assert printed() == "heard\n"
