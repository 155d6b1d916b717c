"""What a first cell prints is shown below it, however early a library has bound the streams."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.notebook.kernel import Notebook
from tests.waiting import until
from workbench.core.cluster.model import ClusterState
from workbench.requests.cluster import ask_down
from workbench.store import Store

pytestmark = [
    pytest.mark.contract,
    pytest.mark.mpi,
    pytest.mark.kernel,
    pytest.mark.timeout(300),
]

README = Path(__file__).parents[2] / "README.md"
TABLE = ["epoch", *(str(10 * n) for n in range(1, 11))]
BINDING = """\
import logging, sys
from sys import stdout, __stdout__
handler = logging.StreamHandler(stdout)
"""
USING = """\
from chainer.training.extensions import PrintReport
PrintReport.__init__.__defaults__[-1].write("report\\n")
print("printed", file=stdout)
__stdout__.write("half a ")
handler.emit(logging.makeLogRecord({"msg": "logged"}))
print("last")
"""
SAID = "report\nprinted\nhalf a logged\nlast\n"
BAR = """\
import sys
from tqdm.auto import tqdm
for _ in tqdm(range(3), file=sys.stdout):
    pass
"""


@pytest.fixture(scope="module")
def notebook(tmp_path_factory) -> Iterator[Notebook]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WORKBENCH_HOME", str(tmp_path_factory.mktemp("home")))
        patch.chdir(tmp_path_factory.mktemp("work"))
        notebook = Notebook()
        yield notebook
        notebook.close()
        with Store() as store:
            ask_down(store)
            until(lambda: store.cluster_fact("default").state is ClusterState.DOWN, seconds=30)


def test_the_first_cell_of_the_readme_prints_its_table(notebook) -> None:
    found = re.search(r"```python\n(%%dist_train --name digits\n.*?)```", README.read_text(), re.S)
    assert found

    answer = notebook.run(found[1])

    lines = [line.removeprefix("\x1b[J").split() for line in answer.text.splitlines()]
    assert [line[0] for line in lines if line and line[0] in TABLE] == TABLE


def test_streams_that_an_earlier_cell_bound_lead_to_the_run_that_is_on(notebook) -> None:
    notebook.run(f"%%dist_setup --name streams\n{BINDING}")

    assert notebook.run(f"%%dist_train\n{USING}").text == SAID


def test_so_do_those_of_the_next_generation(notebook) -> None:
    notebook.run("%%dist_train\nimport os\nos._exit(3)")

    assert notebook.run(f"%%dist_train\n{USING}").text.endswith(SAID)


def test_a_script_that_runs_from_a_shell_prints_as_much(notebook, tmp_path) -> None:
    script = tmp_path / "train.py"
    script.write_text(BINDING + USING)

    answer = subprocess.run(
        [sys.executable, "-m", "workbench.cli", "run", str(script)],
        capture_output=True,
        text=True,
        check=False,
    )

    assert all(line in answer.stdout for line in SAID.splitlines()), answer


def test_ipyparallel_shows_what_goes_to_a_stream_that_was_bound_early(notebook) -> None:
    notebook.run("import workbench\nclient = workbench.client()")

    answer = notebook.run("%%px\nprint('here', file=stdout)")

    # ipyparallel adds a progress bar where the ranks took their time.
    assert sum("here" in text for text in answer.all("text/plain")) == 2


def test_a_bar_that_would_be_a_widget_is_text(notebook) -> None:
    answer = notebook.run(f"%%dist_train\n{BAR}")

    assert "3/3" in answer.text
    assert "█" in answer.text
