"""The kernel writes the result into the notebook's file when no page will, and only then."""

from __future__ import annotations

import json
import os
import time

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook, new_output

from workbench.notebook.notebook_file import keep_result, write_result
from workbench.pages.protocol import RUN_TYPE
from workbench.store.run_names import NOTEBOOK_VARIABLE

RUN = "261121-000000-abcd"
BUNDLE = {
    RUN_TYPE: {"run": RUN, "name": "digits", "saved": {"frame": ""}},
    "text/plain": "Run digits\nfinished",
    "image/png": "iVBORw0KGgo=\n",
}


@pytest.fixture
def path(tmp_path, monkeypatch):
    """A notebook that shows a run as it went on, and another one."""
    outputs = [
        new_output("display_data", {RUN_TYPE: {"run": run, "name": "digits"}, "text/plain": "…"})
        for run in (RUN, "261121-000000-efgh")
    ]
    notebook = new_notebook(cells=[new_code_cell("%%dist_train", outputs=outputs)])
    path = tmp_path / "training.ipynb"
    nbformat.write(notebook, path)
    monkeypatch.setenv(NOTEBOOK_VARIABLE, str(path))
    return path


def outputs(path):
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    return [output.data for output in notebook.cells[0].outputs]


def keep(absence: float = 0.1):
    """Keep the result as a kernel does, but look often and wait little."""
    return keep_result(RUN, lambda _: BUNDLE, look=0.02, absence=absence)


def kept(path) -> bool:
    return "saved" in outputs(path)[0][RUN_TYPE]


def test_the_result_takes_the_place_of_what_was_shown_and_nothing_else(path) -> None:
    other = outputs(path)[1]

    assert write_result(path, RUN, BUNDLE)

    assert outputs(path) == [BUNDLE, other]


def test_what_rank_0_left_in_the_cell_gives_way_to_the_result_which_has_it(path) -> None:
    notebook = nbformat.read(path, as_version=4)
    cell = notebook.cells[0]
    own = {"workbench": {"run": RUN}}
    streamed = [
        new_output("stream", text="of rank 0\n"),
        new_output("display_data", {"image/png": "AAAA"}, metadata=own),
    ]
    cell.outputs[1:1] = streamed
    cell.outputs.insert(0, new_output("stream", text="Starting cluster\n"))
    cell.outputs.append(new_output("stream", text="of the other run\n"))
    nbformat.write(notebook, path)

    write_result(path, RUN, BUNDLE)

    kept = nbformat.read(path, as_version=4).cells[0].outputs
    texts = [output.get("text") or output.data["text/plain"] for output in kept]
    assert texts == ["Starting cluster\n", BUNDLE["text/plain"], "…", "of the other run\n"]


def test_a_notebook_is_written_as_jupyter_writes_it(path) -> None:
    write_result(path, RUN, BUNDLE)
    ours = path.read_text(encoding="utf-8")

    nbformat.write(nbformat.read(path, as_version=4), path)

    assert json.loads(ours) == json.loads(path.read_text(encoding="utf-8"))
    assert ours == path.read_text(encoding="utf-8")


def test_a_result_that_is_there_already_is_left_alone(path) -> None:
    write_result(path, RUN, BUNDLE)
    before = path.stat().st_mtime_ns

    assert not write_result(path, RUN, BUNDLE)
    assert path.stat().st_mtime_ns == before


def test_the_file_keeps_its_permissions_and_leaves_nothing_beside_it(path) -> None:
    os.chmod(path, 0o640)

    write_result(path, RUN, BUNDLE)

    assert path.stat().st_mode & 0o777 == 0o640
    assert os.listdir(path.parent) == [path.name]


def test_when_the_pages_have_gone_the_kernel_keeps_the_result(path, store) -> None:
    store.put_open_pages(RUN, "server", 0, time.time())

    keep().join(10)

    assert kept(path)


def test_while_a_page_is_there_the_file_is_the_pages(path, store) -> None:
    store.put_open_pages(RUN, "server", 1, time.time())

    keeper = keep()
    keeper.join(0.2)

    assert keeper.is_alive()
    assert not kept(path)
    store.put_open_pages(RUN, "server", 0, time.time())
    keeper.join(10)
    assert kept(path)


def test_once_the_page_has_kept_it_the_kernel_rests(path, store) -> None:
    store.put_open_pages(RUN, "server", 1, time.time())
    write_result(path, RUN, BUNDLE)

    keeper = keep()
    keeper.join(10)

    assert not keeper.is_alive()


def test_a_page_that_is_only_reloaded_finds_the_file_as_it_was(path, store) -> None:
    store.put_open_pages(RUN, "server", 0, time.time())

    keeper = keep(absence=60.0)
    keeper.join(0.3)

    assert not kept(path)
    write_result(path, RUN, BUNDLE)
    keeper.join(10)
    assert not keeper.is_alive()


@pytest.mark.parametrize("name", ["", "gone.ipynb", "Untitled"])
def test_without_a_notebooks_file_there_is_nothing_to_do(name, tmp_path, monkeypatch) -> None:
    monkeypatch.setenv(NOTEBOOK_VARIABLE, str(tmp_path / name) if name else "")

    assert keep() is None
