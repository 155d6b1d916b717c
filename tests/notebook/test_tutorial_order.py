"""README's cells and the tutorials run one after another in any order, wherever each was left."""

from __future__ import annotations

import os
import random
import re
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient
from nbformat.v4 import new_code_cell, new_notebook

from tests.waiting import until
from tests.weekly import WEEKLY
from workbench.core.cluster.model import ClusterState
from workbench.requests.cluster import ask_down
from workbench.store import Store

ROOT = Path(__file__).parents[2]
TUTORIALS = sorted((ROOT / "notebooks").glob("*.ipynb"))
STARTS = ("%load_ext", "%dist_cluster")
FEW = 3  # of them run daily, and all weekly


def readme() -> list[str]:
    """Return the cells that README begins with, for one epoch."""
    cells = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    return [re.sub(r'\(\d+, "epoch"\)', '(1, "epoch")', cell) for cell in cells[:2]]


def beginning(path: Path) -> list[str]:
    """Return a tutorial's cells that start its cluster, and its first run with next to no work."""
    cells = [c.source for c in nbformat.read(path, as_version=4).cells if c.cell_type == "code"]
    first = next(cell for cell in cells if cell.startswith("%%dist_train"))
    starts = [c for c in cells[: cells.index(first)] if c.startswith(STARTS)]
    return [*starts, f"{first.splitlines()[0]}\nprint('trained')"]


def run(cells: list[str]) -> None:
    """Run cells in a kernel of their own, and raise what one of them raises."""
    notebook = new_notebook(cells=[new_code_cell(cell) for cell in cells])
    NotebookClient(notebook, timeout=120, kernel_name="python3").execute()


def delete_all() -> None:
    with Store() as store:
        names = [wish.name for wish in store.clusters()]
        for name in names:
            ask_down(store, cluster=name)
        until(lambda: all(store.cluster_fact(name).state is ClusterState.DOWN for name in names))


@pytest.mark.mpi
@pytest.mark.kernel
@pytest.mark.notebook
@pytest.mark.timeout(400)
def test_readme_and_tutorials_run_in_any_order(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("WORKBENCH_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    seed = int(os.environ.get("WORKBENCH_SEED", random.randrange(1000)))
    chance = random.Random(seed)
    notebooks = {"README": readme(), **{path.stem: beginning(path) for path in TUTORIALS}}
    order = chance.sample([*notebooks], len(notebooks) if WEEKLY else FEW)
    ends = {name: chance.random() < 0.5 for name in order}
    print(f"WORKBENCH_SEED={seed}: {', '.join(order)}; deleted after: {ends}")

    try:
        for name in order:
            run([*notebooks[name], *(["%dist_delete"] if ends[name] else [])])
        with Store() as store:
            states = {one.fact.state for one in store.runs()}
    finally:
        delete_all()

    assert states == {"finished"}
