"""A notebook of several cells is resized while its last cell trains, through a real kernel."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.notebook.kernel import Notebook
from tests.waiting import until
from workbench.core.cluster.model import ClusterState
from workbench.requests.cluster import ask_down
from workbench.store import Store

pytestmark = [
    pytest.mark.mpi, pytest.mark.kernel, pytest.mark.weekly, pytest.mark.timeout(300),
]  # fmt: skip

CELLS = Path(__file__).parents[1] / "supervisor" / "programs" / "notebook"


def cell(name: str) -> str:
    return (CELLS / f"{name}.py").read_text(encoding="utf-8")


def test_a_cell_trains_on_with_what_earlier_cells_left(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("WORKBENCH_HOME", str(tmp_path))
    notebook = Notebook()
    with Store() as store:
        try:
            made = [notebook.run(f"%%dist_train --ranks 2\n{cell(n)}") for n in ("data", "model")]
            notebook.run(f"%%dist_train --name third --background\n{cell('training')}")
            until(lambda: store.attempts.newest_snapshot(store.run("third").id) >= 0)
            notebook.run("%dist_resize 3 --oversubscribe --wait")
            until(lambda: store.run("third").fact.resumed_at >= 0)
            notebook.run("%dist_stop third")
            until(lambda: store.run("third").fact.state.ended)
            after = notebook.run("%%dist_train\nprint(comm.size, len(part), updater.iteration > 0)")
        finally:
            notebook.close()
            ask_down(store)
            until(lambda: store.cluster_fact("default").state is ClusterState.DOWN, seconds=30)

    assert [answer.error for answer in made] == ["", ""]
    assert "3 40 True" in after.text
