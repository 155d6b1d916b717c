"""The widget gets deltas, and all of it periodically; it is chosen where it will work."""

from __future__ import annotations

import os
import sys
import types
from types import SimpleNamespace

import pytest

from tests.pages.test_frames import read
from workbench.core.run.model import RunKind, RunState, RunWish
from workbench.errors import InputError
from workbench.notebook import live_widget
from workbench.notebook.live_widget import WIDGET_TYPE, Form, LiveWidget, choose_form
from workbench.notebook.run_view import RunView
from workbench.view.run_record import RunRecord


@pytest.fixture
def module(tmp_path, monkeypatch):
    path = tmp_path / "run_widget.js"
    path.write_text("export default {}")
    path.with_suffix(".css").write_text("")
    monkeypatch.setattr(live_widget, "MODULE", path)


@pytest.fixture
def run(store, stand_in):
    wish = RunWish("261121-000000-abcd", "digits", RunKind.CELL, "pass", cluster="other")
    run = store.run(store.wish_run(wish).id)
    stand_in.begin(run)
    return run


@pytest.fixture
def sent(monkeypatch):
    """The frames that a widget sends."""
    frames: list[bytes] = []
    monkeypatch.setattr(
        "ipywidgets.Widget.send", lambda self, content, buffers: frames.append(buffers[0])
    )
    return frames


@pytest.mark.parametrize(
    ("environment", "form"),
    [
        ({}, Form.PICTURE),
        ({"VSCODE_PID": "1"}, Form.WIDGET),
        ({"VSCODE_PID": "1", "WORKBENCH_LIVE_VIEW": "picture"}, Form.PICTURE),
        ({"WORKBENCH_LIVE_VIEW": "widget"}, Form.WIDGET),
        ({"JPY_SESSION_NAME": "/a.ipynb", "JPY_PARENT_PID": str(os.getpid())}, Form.WIDGET),
        ({"JPY_SESSION_NAME": "/a.ipynb", "JPY_PARENT_PID": "1"}, Form.PICTURE),
        ({"JPY_PARENT_PID": str(os.getpid())}, Form.PICTURE),
    ],
)
def test_a_widget_is_shown_where_it_will_work(environment, form, module, monkeypatch) -> None:
    monkeypatch.setattr(live_widget, "LAB_EXTENSION", "not installed")

    assert choose_form(environment) is form


def test_where_the_lab_extension_is_a_picture_replaces_it(module, monkeypatch, tmp_path) -> None:
    here = {"JPY_SESSION_NAME": "/a.ipynb", "JPY_PARENT_PID": str(os.getpid())}
    monkeypatch.setattr(live_widget, "LAB_EXTENSION", str(tmp_path))

    assert choose_form(here) is Form.PICTURE


def test_without_the_built_module_there_is_a_picture(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(live_widget, "MODULE", tmp_path / "none.js")

    assert choose_form({"VSCODE_PID": "1"}) is Form.PICTURE


def test_in_colab_there_is_a_widget(module, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "google.colab", SimpleNamespace())

    assert choose_form({}) is Form.WIDGET


def test_in_a_kernel_that_vs_code_started_elsewhere_there_is_a_widget(module, monkeypatch) -> None:
    main = SimpleNamespace(__vsc_ipynb_file__="digits.ipynb")
    monkeypatch.setitem(sys.modules, "__main__", main)

    assert choose_form({}) is Form.WIDGET


def test_colab_learns_with_each_output_what_draws_the_widget(
    store, stand_in, run, sent, module, monkeypatch
) -> None:
    # It would add this itself, but only on the thread that made the first widget.
    output = SimpleNamespace(
        enable_custom_widget_manager=lambda: None,
        _widgets=SimpleNamespace(_installed_url="https://colab.test/manager.js"),
    )
    monkeypatch.setitem(sys.modules, "google.colab", SimpleNamespace())
    monkeypatch.setitem(sys.modules, "google.colab.output", output)

    shown = _show_until_end(run, store, stand_in)

    manager = {"colab": {"custom_widget_manager": {"url": "https://colab.test/manager.js"}}}
    assert [metadata.get(WIDGET_TYPE) for _, metadata in shown] == [None, manager, None]


def test_a_wrong_choice_is_refused_before_anything_is_queued(run_cell, store, monkeypatch) -> None:
    monkeypatch.setenv("WORKBENCH_LIVE_VIEW", "film")

    with pytest.raises(InputError, match="WORKBENCH_LIVE_VIEW is 'film'; set it to widget"):
        run_cell("%%dist_train\npass")

    assert store.runs() == []


def test_each_push_sends_what_is_new(store, stand_in, run, sent, module) -> None:
    record = RunRecord(run)
    widget = LiveWidget(store, record)

    for second in range(3):
        stand_in.report(run, 0, iteration=second, loss=1.0 / (second + 1))
        list(record.read(store, 1000.0 + second))
        widget.push(1000.0 + second)
    widget.push(1003.0)
    widget.close()

    assert [read(frame)[1][0]["x"].tolist() for frame in sent] == [[0], [1], [2]]


def test_a_page_that_says_hello_gets_the_whole(store, stand_in, run, sent, module) -> None:
    record = RunRecord(run)
    widget = LiveWidget(store, record)
    stand_in.report(run, 0, iteration=1, loss=1.0)
    list(record.read(store, 1000.0))
    widget.push(1000.0)

    widget._hear(None, {"type": "hello"}, [])
    widget.close()

    assert read(sent[-1])[0]["series"][0]["reset"] is True


def test_stop_in_the_widget_is_the_wish_to_stop(store, run, module) -> None:
    widget = LiveWidget(store, RunRecord(run))

    widget._hear(None, {"type": "stop"}, [])
    widget.close()

    assert store.run(run.id).wish.stop


def test_the_kept_result_has_no_widget(store, stand_in, run, sent, module, monkeypatch) -> None:
    monkeypatch.setenv("WORKBENCH_LIVE_VIEW", "widget")

    shown = _show_until_end(run, store, stand_in)

    assert [WIDGET_TYPE in bundle for bundle, _ in shown] == [False, True, False]


def _show_until_end(run, store, stand_in):
    shown = []

    def show(place, bundle, metadata=types.MappingProxyType({}), *, final=False):
        shown.append((bundle, metadata))

    view = RunView(run, SimpleNamespace(show=show))

    for second in range(6):
        stand_in.report(run, 0, iteration=second + 1, loss=1.0)
        view.read(store, 1000.0 + second)
        view.draw(1000.0 + second)
    stand_in.end(run, RunState.FINISHED)
    view.finish(store, 1006.0)
    return shown
