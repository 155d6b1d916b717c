"""The tutorials run as they are, and what is saved of them reads without a kernel."""

from __future__ import annotations

import importlib.util
import re
import time
from pathlib import Path

import nbformat
import pytest

from workbench.core.cluster import ClusterState
from workbench.store import Store

NOTEBOOKS = sorted((Path(__file__).parents[2] / "notebooks").glob("*.ipynb"))
WIDGET = "application/vnd.jupyter.widget-view+json"

_spec = importlib.util.spec_from_file_location(
    "save_tutorials", Path(__file__).with_name("save_tutorials.py")
)
assert _spec
assert _spec.loader
save_tutorials = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(save_tutorials)


def outputs(notebook: nbformat.NotebookNode) -> list[nbformat.NotebookNode]:
    return [output for cell in notebook.cells for output in cell.get("outputs", [])]


@pytest.fixture(params=NOTEBOOKS, ids=lambda path: path.stem)
def saved(request) -> nbformat.NotebookNode:
    return nbformat.read(request.param, as_version=4)


def test_there_are_tutorials() -> None:
    assert [path.stem for path in NOTEBOOKS][:2] == ["00_offline_tour", "01_dist_train"]


def test_every_code_cell_was_executed_in_order(saved) -> None:
    counts = [cell.execution_count for cell in saved.cells if cell.cell_type == "code"]

    assert counts == list(range(1, len(counts) + 1))


def test_every_chart_is_a_picture_with_words(saved) -> None:
    shown = [output.data for output in outputs(saved) if "image/png" in output.get("data", {})]

    assert len(shown) >= 3
    for data in shown:
        assert re.search(r'<img alt="[^"]*\d', data["text/html"])
        assert data["text/plain"]
        assert WIDGET not in data


def test_no_widget_and_no_path_of_the_authors_machine_is_saved(saved) -> None:
    text = nbformat.writes(saved)

    assert WIDGET not in text
    assert "widgets" not in saved.metadata
    assert not re.findall(r"/(?:home|root|work|tmp/wb-|Users)/[\w./-]*", text)
    assert "site-packages" not in text


@pytest.mark.mpi
@pytest.mark.kernel
@pytest.mark.notebook
@pytest.mark.timeout(400)
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_tutorial_runs_from_top_to_bottom(path, tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("WORKBENCH_HOME", str(tmp_path / "home"))

    done = save_tutorials.execute(path, tmp_path)

    expected = [cell for cell in done.cells if "raises-exception" in cell.metadata.get("tags", [])]
    failed = [o for o in outputs(done) if o.output_type == "error"]
    assert len(failed) == len(expected)
    assert sum("image/png" in output.get("data", {}) for output in outputs(done)) >= 3
    with Store() as store:
        deadline = time.monotonic() + 30
        while store.cluster_fact("default").state is not ClusterState.DOWN:
            assert time.monotonic() < deadline, "the last cell did not take the cluster down"
            time.sleep(0.1)
