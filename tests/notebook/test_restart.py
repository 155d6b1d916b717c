"""A run continues whatever ends the kernel of its cell; only a user's interrupt stops it."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator

import nbformat
import pytest
from jupyter_client.manager import KernelManager
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError

from tests.notebook.kernel import Notebook
from tests.waiting import until
from workbench.core.run.model import RunState
from workbench.store import Store

pytestmark = [pytest.mark.kernel, pytest.mark.timeout(120)]

CELL = "%%dist_train --name digits\npass"
ENDINGS: dict[str, Callable[[KernelManager], object]] = {
    "restart": lambda kernel: kernel.restart_kernel(),
    "restart at once": lambda kernel: kernel.restart_kernel(now=True),
    "shutdown": lambda kernel: kernel.shutdown_kernel(),
    "shutdown at once": lambda kernel: kernel.shutdown_kernel(now=True),
    "death": lambda kernel: os.kill(kernel.provisioner.pid, signal.SIGKILL),
}


@pytest.fixture
def notebook(stand_in) -> Iterator[Notebook]:
    """A kernel, and a cluster that trains until it is asked to stop."""
    stand_in.iterations = 1_000_000
    notebook = Notebook()
    notebook.run(
        "from workbench.view.pictures.curve_picture import warm_up\nwarm_up()"
    )  # which takes a while
    yield notebook
    notebook.close()


@pytest.fixture
def training(notebook) -> Notebook:
    """A kernel whose cell follows a run."""
    notebook.client.execute(CELL)
    hear(notebook, "running · iteration")
    return notebook


def hear(notebook: Notebook, words: str) -> float:
    """Wait until the cell shows ``words``, and return when that was."""
    while words not in str(notebook.client.get_iopub_msg(timeout=30)["content"]):
        pass
    return time.monotonic()


def still_runs(store: Store) -> bool:
    """Wait for a sign of life of the run, and return whether it was not asked to stop."""
    before = store.run("digits").fact.iteration
    until(lambda: store.run("digits").fact.iteration > before, seconds=10)
    return not store.run("digits").wish.stop


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_run_outlives_its_kernel(training, store, ending) -> None:
    ENDINGS[ending](training.manager)

    assert still_runs(store)


def test_a_restarted_kernel_attaches_and_says_what_its_next_run_waits_for(training) -> None:
    training.manager.restart_kernel()
    training.client.wait_for_ready(timeout=60)
    training.run("%load_ext workbench")

    status = training.run("%dist_status")
    same = training.run(CELL)
    other = training.run("%%dist_train --background\npass")

    assert any("running · iteration" in text for text in status.all("text/plain"))
    assert "stop it (%dist_stop digits), or choose another name" in same.error
    assert "Run 'digits' is still active, and this one waits for it" in other.text


def test_an_interrupt_is_answered_at_once_and_stops_the_run_soon(training, store) -> None:
    begun = time.monotonic()
    training.manager.interrupt_kernel()

    answered = hear(training, "Stopping…") - begun
    asked = hear(training, "Stopping after this iteration") - begun
    hear(training, "stopped at iteration")

    assert store.run("digits").fact.state is RunState.STOPPED
    print(f"answered after {answered:.2f} s, asked after {asked:.2f} s")
    assert asked < 5  # 1.1 s on a machine that has nothing else to do


def test_two_interrupts_stop_the_run_at_once(notebook, store) -> None:
    notebook.run("import workbench.notebook.kernel as it\nit.RESTART_SECONDS = 600")
    notebook.client.execute(CELL)
    hear(notebook, "running · iteration")

    notebook.manager.interrupt_kernel()
    hear(notebook, "Stopping…")
    notebook.manager.interrupt_kernel()
    hear(notebook, "stopped at iteration")

    assert store.run("digits").fact.state is RunState.STOPPED


@pytest.mark.parametrize("moment", ["queued", "running", "stopping"])
def test_the_cells_behind_an_interrupted_one_are_aborted(notebook, stand_in, store, moment) -> None:
    ended = threading.Event()

    def play(stand_in, run) -> None:
        if moment == "queued" and not run.wish.stop:
            return
        if not run.fact.started:
            stand_in.begin(run)
        if run.wish.stop and (moment != "stopping" or ended.is_set()):
            stand_in.end(run, RunState.STOPPED)

    stand_in.play = play
    sent = [notebook.client.execute(cell) for cell in (CELL, "print('ran')", CELL)]
    hear(notebook, "queued" if moment == "queued" else "running")
    if moment == "stopping":
        store.wish_stop(store.run("digits").id)
    notebook.manager.interrupt_kernel()
    hear(notebook, "Stopping")
    ended.set()

    replies = {}
    while len(replies) < len(sent):
        message = notebook.client.get_shell_msg(timeout=30)
        replies[message["parent_header"]["msg_id"]] = message["content"]
    first, *others = (replies[one] for one in sent)
    assert (first["status"], first["ename"]) == ("error", "KeyboardInterrupt")
    assert first["traceback"] == ["KeyboardInterrupt: digits: stopped at iteration 0."]
    assert [other["status"] for other in others] == ["aborted", "aborted"]
    assert len(store.runs()) == 1


@pytest.mark.parametrize("interrupts", [False, True])
def test_a_cell_that_takes_too_long_stops_its_run_only_where_it_is_interrupted(
    stand_in, store, interrupts
) -> None:
    stand_in.iterations = 1_000_000
    cells = [nbformat.v4.new_code_cell(text) for text in ("%load_ext workbench", CELL)]
    client = NotebookClient(
        nbformat.v4.new_notebook(cells=cells),
        timeout_func=lambda cell: 4 if cell.source == CELL else 60,
        interrupt_on_timeout=interrupts,
    )

    with pytest.raises(CellExecutionError if interrupts else CellTimeoutError):
        client.execute()

    assert store.run("digits").wish.stop is interrupts
