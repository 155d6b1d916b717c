"""The notebook's whole way: a Jupyter kernel, a supervisor, real engines."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.notebook.kernel import Notebook, processes_of
from tests.waiting import until
from workbench.core.cluster.model import ClusterState
from workbench.core.run.model import RunState
from workbench.requests.cluster import ask_down
from workbench.store import Store

pytestmark = [pytest.mark.mpi, pytest.mark.kernel, pytest.mark.timeout(300)]

BOUND_NBYTES = 16_000_000 // 50
TRAINING = """\
import time, workbench
from mpi4py import MPI
rank = MPI.COMM_WORLD.rank
for i in range(1, {n} + 1):
    time.sleep({pace})
    workbench.report(loss=1 / i + rank, total={n})
"""


@pytest.fixture(scope="module")
def home(tmp_path_factory) -> Iterator[str]:
    """A cluster of two ranks for all tests here, down again afterwards."""
    with pytest.MonkeyPatch.context() as patch:
        folder = str(tmp_path_factory.mktemp("home"))
        patch.setenv("WORKBENCH_HOME", folder)
        yield folder
        with Store() as store:
            ask_down(store)
            until(lambda: store.cluster_fact("default").state is ClusterState.DOWN, seconds=30)


@pytest.fixture(scope="module")
def warm(home) -> Iterator[Notebook]:
    notebook = Notebook()
    yield notebook
    notebook.close()


def test_a_cell_starts_the_cluster_and_leaves_a_picture(warm, store) -> None:
    answer = warm.run(
        "%%dist_train --name first\nprint('hello')\n" + TRAINING.format(n=20, pace=0.02)
    )

    assert "Starting cluster 'default'" in answer.text
    assert "hello\n" in answer.text
    assert len(answer.all("image/png")) == 1
    assert "Run first: finished · iteration 20 of 20 · 2 ranks" in answer.all("text/plain")[-1]


def test_what_a_cell_leaves_is_there_for_the_next_one(warm) -> None:
    warm.run("%%dist_train\nmine = 40 + rank")

    answer = warm.run("%%dist_train\nprint('I have', mine)")

    assert answer.text == "I have 40\n"
    assert "I have 41" in answer.all("text/html")[-1]


def test_modules_beside_the_notebook_are_imported_again_or_reloaded(warm, tmp_path) -> None:
    helper, model = tmp_path / "helper_of_real.py", tmp_path / "model_of_real.py"
    helper.write_text("VALUE = 1")
    model.write_text("def f():\n    return 1")
    warm.run(f"import os\nbefore = os.getcwd()\nos.chdir({str(tmp_path)!r})")
    cell = "%%dist_train --ranks 1\nimport helper_of_real as h\nprint(h.VALUE)"
    first = warm.run(cell).text
    helper.write_text("VALUE = 2")
    second = warm.run(cell).text

    warm.run(
        "%%dist_train\n%load_ext autoreload\n%autoreload 2\nimport model_of_real\n"
        "from model_of_real import f"
    )
    model.write_text("def f():\n    return 22")
    reloaded = warm.run("%%dist_train\nprint(f(), model_of_real.f())\n%autoreload 0").text
    warm.run("os.chdir(before)")

    assert (first, second, reloaded) == ("1\n", "2\n", "22 22\n")


def test_bars_of_rank_0_are_shown_as_bars(warm) -> None:
    answer = warm.run(
        "%%dist_train\nfrom IPython.display import display\nfrom ipywidgets import IntProgress\n"
        "from rich.progress import track\nbar = IntProgress(max=4)\ndisplay(bar)\n"
        "print('before')\nfor step in track(range(4)):\n    bar.value += 1"
    )

    assert "before\n" in answer.text
    shown = "".join(answer.all("text/html"))
    assert '<progress value="4" max="4"></progress>' in shown
    assert "100%" in shown


def test_a_thread_and_a_task_of_a_cell_belong_to_it(warm) -> None:
    first = warm.run(
        "%%dist_train --ranks 1\nimport asyncio, threading\nmay = threading.Event()\n"
        "def late():\n    may.wait()\n    print('late')\n"
        "async def task():\n    print('task')\n"
        "thread = threading.Thread(target=late)\nthread.start()\nt = asyncio.create_task(task())"
    )
    second = warm.run("%%dist_train --ranks 1\nmay.set()\nthread.join()\nprint('own')")

    assert first.text == "task\n"
    assert "own\n" in second.text
    assert "late\n" not in second.text
    assert "a thread that an earlier run began still prints" in second.text


def test_a_rank_that_raises_ends_the_cell_with_its_traceback(warm) -> None:
    begun = time.monotonic()

    answer = warm.run("%%dist_train\nx = 1\nif rank == 1:\n    x / 0\nMPI.COMM_WORLD.barrier()")

    assert time.monotonic() - begun < 2
    assert "Rank 1 on " in answer.error
    assert "line 4" in answer.error  # the magic is in line 1
    assert "ZeroDivisionError: division by zero" in answer.error
    assert "workbench/" not in answer.error


def test_the_cell_after_a_failure_runs(warm) -> None:
    assert warm.run("%%dist_train\nprint(6 * 7)").text.endswith("42\n")


def test_the_stop_button_of_the_page_stops_the_run(warm, store) -> None:
    def interrupt(message: dict[str, Any]) -> None:
        text = message["content"].get("data", {}).get("text/plain", "")
        if "running · iteration" in text and not store.run("long").wish.stop:
            warm.manager.interrupt_kernel()

    answer = warm.run(
        "%%dist_train --name long\n" + TRAINING.format(n=5000, pace=0.02), then=interrupt
    )

    run = store.run("long")
    assert run.fact.state is RunState.STOPPED
    said = f"KeyboardInterrupt: long: stopped at iteration {run.fact.iteration:,}."
    assert answer.error == said


def test_a_killed_supervisor_is_woken_by_the_cell_that_looks(warm, store) -> None:
    killed = []

    def kill(message: dict[str, Any]) -> None:
        text = message["content"].get("data", {}).get("text/plain", "")
        if "running · iteration" in text and not killed:
            killed.append(store.cluster_fact("default").supervisor)
            os.kill(killed[0], signal.SIGKILL)

    answer = warm.run("%%dist_train --name kept\n" + TRAINING.format(n=100, pace=0.05), then=kill)

    assert killed
    assert not answer.error
    run = store.run("kept")
    assert run.fact.state is RunState.FINISHED
    assert len(store.reports.points(run.id)) == 200


def test_two_kernels_queue_behind_each_other(warm, store) -> None:
    warm.run("%%dist_train --background --name slow\n" + TRAINING.format(n=40, pace=0.05))

    answer = warm.run("%%dist_train --name next\nprint('at last')")

    assert any("waits for run 'slow'" in text for text in answer.all("text/plain"))
    assert "at last" in answer.text


def test_a_setup_cell_is_repeated_on_fresh_ranks(warm, store) -> None:
    warm.run("%%dist_setup --name constant\nconstant = 299792458")

    warm.run("%%dist_train\nimport os\nos._exit(3)")
    answer = warm.run("%%dist_train\nprint(constant)")

    assert "299792458" in answer.text


def test_400_lines_from_4_ranks_are_a_fiftieth_of_what_px_sends(warm, store) -> None:
    warm.run("%dist_resize 4 --oversubscribe")
    until(lambda: store.cluster_fact("default").ranks == 4)

    answer = warm.run(
        "%%dist_train\nimport time\nfrom mpi4py import MPI\nfor i in range(400):\n"
        "    print(f'rank {MPI.COMM_WORLD.rank} says line {i}')\n    time.sleep(0.01)"
    )

    assert answer.text.count("\n") == 400
    assert answer.nbytes < BOUND_NBYTES


def test_nothing_is_left_when_the_cluster_is_down(home, warm, store) -> None:
    ask_down(store)
    until(lambda: store.cluster_fact("default").state is ClusterState.DOWN)

    mine = {os.getpid(), warm.manager.provisioner.pid}
    until(lambda: not processes_of(home) - mine, seconds=15)
