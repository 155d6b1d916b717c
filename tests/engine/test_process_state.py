"""A cell's changes of its process are reverted where they would harm the next cell."""

from __future__ import annotations

import contextlib
import io
import signal
import sys
from types import SimpleNamespace

import pytest

from workbench.engine.output.output_capture import OutputStream

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


def test_variables_are_set_and_removed_for_a_run_alone(perform, printed, monkeypatch) -> None:
    monkeypatch.setenv("WB_OLD", "1")
    monkeypatch.setenv("WB_KEPT", "1")
    show = "import os, time\nprint([os.environ.get(f'WB_{n}') for n in ('OLD', 'NEW', 'KEPT')])"

    perform(show, environment=(("WB_OLD", None), ("WB_NEW", "2"), ("WB_KEPT", "3")))
    perform(show)
    perform("import time\nprint(time.tzname[0])", environment=(("TZ", "XYZ+3"),))

    assert printed() == "[None, '2', '3']\n['1', None, '1']\nXYZ\n"


def test_a_path_of_modules_is_searched_for_a_run_alone(perform, tmp_path) -> None:
    path = [*sys.path]
    source = f"import sys\nassert {str(tmp_path)!r} in sys.path"

    ending = perform(source, environment=(("PYTHONPATH", f"{tmp_path}:"),))

    assert ending.state == "finished"
    assert sys.path == path


def test_a_number_of_threads_is_set_where_libraries_are_loaded(perform) -> None:
    threadpoolctl = pytest.importorskip("threadpoolctl")
    pytest.importorskip("numpy")
    before = threadpoolctl.threadpool_info()
    source = (
        "import threadpoolctl\n"
        "assert {one['num_threads'] for one in threadpoolctl.threadpool_info()} <= {3}"
    )

    ending = perform(source, environment=(("OMP_NUM_THREADS", "3"),))

    assert (ending.state, ending.error) == ("finished", "")
    assert threadpoolctl.threadpool_info() == before


def test_a_choice_of_gpus_that_comes_too_late_is_said(perform, printed, monkeypatch) -> None:
    cuda = SimpleNamespace(is_initialized=lambda: True)
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=cuda))

    with contextlib.redirect_stderr(OutputStream("stderr", io.StringIO())):
        perform("pass", environment=(("CUDA_VISIBLE_DEVICES", "1"),))

    assert printed() == (
        "This rank uses its GPUs already, so CUDA_VISIBLE_DEVICES has no effect on it.\n"
    )
