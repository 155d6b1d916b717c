"""Extensions and magics of IPython work in a cell of a rank."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from IPython.core.interactiveshell import InteractiveShell

from workbench.engine.boundary import RunStopped


@pytest.fixture
def shell() -> Iterator[InteractiveShell]:
    yield InteractiveShell.instance()
    InteractiveShell.clear_instance()


@pytest.mark.parametrize("magic", ["%%capture", "%%time"])
def test_an_error_below_a_cell_magic_is_the_runs(perform, magic) -> None:
    ending = perform(f"{magic}\nx = 1\nx / 0")

    assert (ending.state, ending.error) == ("failed", "ZeroDivisionError: division by zero")


def test_a_stop_below_a_cell_magic_stops_the_run(perform, shell) -> None:
    shell.user_ns["RunStopped"] = RunStopped

    assert perform("%%capture\nraise RunStopped").state == "stopped"


def test_what_a_magic_captures_is_there_for_the_next_cell(perform, printed) -> None:
    perform("%%capture captured\nprint('shown later')")
    perform("print(captured.stdout, end='')\n%timeit -n1 -r1 -q 1")

    assert printed() == "shown later\n"


def test_extensions_of_ipython_hear_of_each_cell(perform, shell) -> None:
    heard = []
    for event in ("pre_execute", "post_execute"):
        shell.events.register(event, lambda event=event: heard.append(event))
    shell.events.register("pre_run_cell", lambda info: heard.append(info.raw_cell))
    shell.events.register("post_run_cell", lambda result: heard.append(result.success))

    perform("x = 1")
    perform("1 / 0")

    assert heard == [
        "pre_execute", "x = 1", "post_execute", True,
        "pre_execute", "1 / 0", "post_execute", False,
    ]  # fmt: skip
