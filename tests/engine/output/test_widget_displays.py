"""Widgets of a rank are shown as HTML that follows their values."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator

import ipywidgets as widgets
import pytest
from IPython.core.interactiveshell import InteractiveShell

from workbench.core.run.display import HTML, PLAIN, Display
from workbench.engine.output.display_capture import RoutedDisplays, show_value
from workbench.engine.output.output_capture import OutputStream
from workbench.engine.output.widget_displays import render, show_widgets
from workbench.engine.run_context import RunContext, set_current
from workbench.view.html import sanitize_output

BAR = '<progress value="{}" max="10"></progress>'


@pytest.fixture(autouse=True)
def shell(monkeypatch) -> Iterator[InteractiveShell]:
    """A shell whose displays go to the run; ipywidgets is as before afterwards."""
    shell = InteractiveShell.instance()
    shell.display_pub = RoutedDisplays(shell.display_pub)
    for name in ("__enter__", "__exit__"):
        monkeypatch.setattr(widgets.Output, name, getattr(widgets.Output, name))
    show_widgets()
    yield shell
    del widgets.Widget._ipython_display_
    InteractiveShell.clear_instance()


@pytest.fixture
def displays(taken) -> Callable[[], list[Display]]:
    return lambda: [one for one in taken().chunks if isinstance(one, Display)]


def test_a_bar_is_shown_with_its_present_value(current_run, shell, displays) -> None:
    bar = widgets.IntProgress(value=2, max=10, description="epochs")
    show_value(shell, bar)
    (first,) = displays()
    bar.value = 3
    bar.value = 7
    (second,) = displays()

    assert first.data == {HTML: f"epochs {BAR.format(2)}", PLAIN: "epochs 2/10"}
    assert (second.action, second.data[HTML]) == ("update", f"epochs {BAR.format(7)}")
    assert sanitize_output(first.data[HTML]) == first.data[HTML]


def test_a_part_of_a_box_is_followed_also_if_it_was_put_in_later(
    current_run, shell, displays
) -> None:
    bar, words = widgets.FloatProgress(max=10), widgets.HTML("<b>begun</b>")
    box = widgets.VBox([words])
    show_value(shell, box)
    box.children = [words, bar]
    bar.value = 4.5

    (shown,) = displays()

    assert shown.data[HTML] == f"<div><b>begun</b></div> <div>{BAR.format(4.5)}</div>"


@pytest.mark.parametrize(
    ("widget", "text"),
    [
        (widgets.Label("a < b"), "a < b"),
        (widgets.IntSlider(3, description="size"), "size: 3"),
        (widgets.Button(description="go"), "go"),
        (widgets.HBox([widgets.Label("a"), widgets.Label("b")]), "a b"),
        (widgets.Tab([widgets.Label("a")], titles=["one"]), "one a"),
        (widgets.Image(value=b"GIF", format="gif"), "<an image>"),
        (widgets.Valid(True), "True"),
    ],
)
def test_other_widgets_are_shown_by_their_value(widget, text) -> None:
    assert render(widget)[1] == text


def test_a_closed_widget_is_gone(current_run, shell, displays) -> None:
    bar = widgets.IntProgress(max=10)
    show_value(shell, bar)
    displays()

    bar.close()

    assert displays()[0].data == {HTML: "", PLAIN: ""}


def test_an_output_widget_takes_what_is_printed_in_it(current_run, shell, displays, taken) -> None:
    stream, out = OutputStream("stdout", io.StringIO()), widgets.Output()
    show_value(shell, out)
    for value in (1, 2):  # as rich draws its bars
        with out:
            out.clear_output(wait=True)
            print("step", value, file=stream)
    print("beside", file=stream)

    chunks = taken().chunks

    assert [one.text for one in chunks if not isinstance(one, Display)] == ["beside\n"]
    assert [one.data[HTML] for one in chunks if isinstance(one, Display)] == ["<pre>step 2\n</pre>"]


def test_an_error_or_a_stop_within_an_output_widget_is_the_runs(current_run) -> None:
    with pytest.raises(KeyboardInterrupt), widgets.Output():
        raise KeyboardInterrupt

    assert current_run.sinks == []


def test_outside_of_a_run_a_widget_is_as_ever(shell, monkeypatch) -> None:
    published = []
    monkeypatch.setattr(
        shell.display_pub._original, "publish", lambda data, *_, **__: published.append(data)
    )

    show_value(shell, widgets.IntProgress())

    assert "application/vnd.jupyter.widget-view+json" in published[0]


def test_a_widget_from_an_earlier_run_has_no_place_in_the_next(
    current_run, shell, displays, log
) -> None:
    bar = widgets.IntProgress(max=10)
    show_value(shell, bar)
    displays()
    set_current(RunContext(log))
    set_current(None)

    bar.value = 5

    assert displays() == []
