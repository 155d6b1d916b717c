"""The tutorials run as they are, and what is saved of them reads without a kernel."""

from __future__ import annotations

import base64
import importlib.util
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import nbformat
import pytest
from nbconvert import HTMLExporter

RUN = "application/vnd.workbench.run+json"
MOST_BYTES = 150_000
# All run weekly; test_tutorial_order.py begins each.
OFTEN = "01_dist_train"
WITH_TORCH = ("06_pytorch", "07_finetune_on_spot")
OF_SWEEPS = "08-"
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


def runs(notebook: nbformat.NotebookNode) -> list[nbformat.NotebookNode]:
    """What is shown of each run; a run without values has no curves."""
    shown = [output.data for output in outputs(notebook) if RUN in output.get("data", {})]
    return [data for data in shown if "saved" not in data[RUN] or data[RUN].saved.run["values"]]


class Page(HTMLParser):
    """Notes the images of a page, and every address that a browser would follow or fetch."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.images: list[dict[str, str | None]] = []
        self.addresses: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "img":
            self.images.append(dict(attrs))
        for name, value in attrs:
            if name in ("src", "href", "srcset", "action", "data", "poster"):
                self.addresses.append(value or "")


@pytest.fixture(params=NOTEBOOKS, ids=lambda path: path.stem)
def saved(request) -> nbformat.NotebookNode:
    return nbformat.read(request.param, as_version=4)


def charts(notebook: nbformat.NotebookNode) -> list[nbformat.NotebookNode]:
    return [output.data for output in outputs(notebook) if "image/png" in output.get("data", {})]


def test_there_are_tutorials() -> None:
    assert [path.stem for path in NOTEBOOKS][:6] == [
        "00_offline_tour",
        "01_dist_train",
        "02_live_view",
        "03_spot_cluster",
        "04_bandwidth",
        "05_spot_interruption",
    ]


def test_every_code_cell_was_executed_in_order(saved) -> None:
    counts = [cell.execution_count for cell in saved.cells if cell.cell_type == "code"]

    assert counts == list(range(1, len(counts) + 1))


def test_it_was_executed_with_this_version_its_schema_and_this_code(saved) -> None:
    remedy = "execute it again: .venv/bin/python tests/notebook/save_tutorials.py"

    assert saved.metadata.get("workbench") == save_tutorials.stamp(saved), remedy


def test_every_chart_is_a_picture_with_words(saved) -> None:
    shown = charts(saved)

    assert len(shown) >= 3
    for data in shown:
        assert re.search(r'<img alt="[^"]*\d', data["text/html"])
        assert data["text/plain"]
        assert WIDGET not in data


def test_three_runs_are_kept_each_as_picture_and_curves(saved) -> None:
    shown = runs(saved)

    assert len(shown) >= (0 if OF_SWEEPS in saved.cells[0].id else 3)  # a sweep is one chart
    # One output a run, and one more where a run is resumed that had ended.
    ends = {(data[RUN].run, data[RUN].saved.run.ended) for data in shown}
    assert len(ends) == len(shown)
    for data in shown:
        assert data[RUN].saved.run.is_ended
        assert len(base64.b64decode(data[RUN].saved.frame)) > 1_000
        assert base64.b64decode(data["image/png"]).startswith(b"\x89PNG")
        assert len(json.dumps(data).encode()) <= MOST_BYTES


def test_as_html_every_chart_is_a_picture_with_words(saved) -> None:
    # Without the frame: that one brings scripts of its own, from elsewhere.
    text, _ = HTMLExporter(template_name="basic").from_notebook_node(saved)
    page = Page(text)

    assert len(page.images) == len(charts(saved)) >= max(3, len(runs(saved)))
    for image in page.images:
        assert image["alt"]
        assert (image["src"] or "").startswith("data:image/png;base64,")
    assert "application/vnd.jupyter.widget" not in text
    assert [one for one in page.addresses if not one.startswith(("#", "data:image/png;"))] == []
    assert "://" not in text


def test_no_widget_and_no_path_of_the_authors_machine_is_saved(saved) -> None:
    text = nbformat.writes(saved)

    assert WIDGET not in text
    assert "widgets" not in saved.metadata
    assert not re.findall(r"/(?:home|root|work|tmp/wb-|Users)/[\w./-]*", text)
    assert "site-packages" not in text


def run_whole(path: Path, folder: Path) -> None:
    done = save_tutorials.execute(path, folder)

    expected = [cell for cell in done.cells if "raises-exception" in cell.metadata.get("tags", [])]
    failed = [o for o in outputs(done) if o.output_type == "error"]
    assert len(failed) == len(expected), path.stem
    assert all("image/png" in data for data in runs(done))
    assert len(charts(done)) >= 3
    save_tutorials.await_down()


@pytest.mark.mpi
@pytest.mark.kernel
@pytest.mark.notebook
@pytest.mark.timeout(400)
def test_a_tutorial_runs_from_top_to_bottom(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("WORKBENCH_HOME", str(tmp_path / "home"))

    run_whole(next(path for path in NOTEBOOKS if path.stem == OFTEN), tmp_path)


@pytest.mark.mpi
@pytest.mark.kernel
@pytest.mark.notebook
@pytest.mark.weekly
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(
    "has_torch", [False, pytest.param(True, marks=pytest.mark.torch)], ids=["plain", "torch"]
)
def test_tutorials_run_whole_in_order_and_once_more(has_torch, tmp_path, monkeypatch) -> None:
    """A reader of all of them has the runs of the earlier ones, under the same names."""
    if has_torch:
        pytest.importorskip("torch", reason="torch is an extra that the tests do without")
        pytest.importorskip("transformers", reason="transformers is no requirement")
    monkeypatch.setenv("WORKBENCH_HOME", str(tmp_path / "home"))
    paths = [path for path in NOTEBOOKS if (path.stem in WITH_TORCH) == has_torch]

    for path in (*paths, *paths):
        run_whole(path, tmp_path)
