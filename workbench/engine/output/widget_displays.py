"""Show ipywidgets of a rank as HTML that follows their values; there is nothing to click on."""

from __future__ import annotations

import functools
import weakref
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping
from html import escape
from typing import Any

from workbench.core.run.display import HTML, IMAGES, PLAIN
from workbench.engine.import_hook import when_imported
from workbench.engine.run_context import RunContext, current

_REPR_CHARACTERS = 110  # as ipywidgets' own text
_OUTPUT_CHARACTERS = 100_000
_followed = weakref.WeakSet[Any]()
_to_clear = weakref.WeakSet[Any]()


def show_widgets() -> None:
    """Show widgets in runs, now or as soon as ipywidgets is imported."""
    when_imported("ipywidgets.widgets.widget", _wrap)
    when_imported("ipywidgets.widgets.widget_output", _wrap_output)


class WidgetCapture:
    """Takes what is printed and displayed within an ``Output`` widget."""

    def __init__(self, widget: Any) -> None:
        self.widget = widget

    def write(self, stream: str, text: str) -> None:
        """Add text."""
        kept = self._take_kept()
        if kept and kept[-1].get("name") == stream:
            text = kept.pop()["text"] + text
        added = {"output_type": "stream", "name": stream, "text": text[-_OUTPUT_CHARACTERS:]}
        self.widget.outputs = (*kept, added)

    def display(self, data: Mapping[str, str]) -> None:
        """Add a display."""
        added = {"output_type": "display_data", "data": dict(data), "metadata": {}}
        self.widget.outputs = (*self._take_kept(), added)

    def clear(self, *, wait: bool) -> None:
        """Remove what there is: now, or with ``wait`` when the next output comes."""
        if wait:
            _to_clear.add(self.widget)
        else:
            self.widget.outputs = ()

    def _take_kept(self) -> list[dict[str, Any]]:
        kept = [] if self.widget in _to_clear else [*self.widget.outputs]
        _to_clear.discard(self.widget)
        return kept


def render(widget: Any) -> tuple[str, str]:
    """Return a widget's present state as HTML and as text; both are empty once it is closed."""
    kinds = {kind.__name__ for kind in type(widget).__mro__}
    if widget.comm is None or getattr(getattr(widget, "layout", None), "display", "") == "none":
        return "", ""
    make = next((made for kind, made in _KINDS.items() if kind in kinds), _other)
    return make(widget)


def _progress(widget: Any) -> tuple[str, str]:
    done, whole = widget.value - widget.min, widget.max - widget.min
    words = escape(str(widget.description))
    bar = f'<progress value="{done:g}" max="{whole:g}"></progress>'
    return f"{words} {bar}".strip(), f"{widget.description} {done:g}/{whole:g}".strip()


def _box(widget: Any) -> tuple[str, str]:
    titles = getattr(widget, "titles", ()) or ()
    tag, gap = ("span", " ") if type(widget).__name__ == "HBox" else ("div", "\n")
    htmls, texts = [], []
    for at, child in enumerate(widget.children):
        html, text = render(child)
        title = str(titles[at]) if at < len(titles) else ""
        heading = f"<b>{escape(title)}</b> " if title else ""
        htmls.append(f"<{tag}>{heading}{html}</{tag}>" if html else "")
        texts.append(f"{title} {text}".strip())
    return " ".join(filter(None, htmls)), gap.join(filter(None, texts))


def _html(widget: Any) -> tuple[str, str]:
    words = str(widget.description)
    return f"{escape(words)} {widget.value}".strip(), f"{words} {widget.value}".strip()


def _image(widget: Any) -> tuple[str, str]:
    kind = f"image/{widget.format.replace('jpg', 'jpeg')}"
    if kind not in IMAGES:
        return _other(widget)
    return f'<img src="data:{kind};base64,{b64encode(widget.value).decode()}">', "<an image>"


def _output(widget: Any) -> tuple[str, str]:
    htmls, texts = [], []
    for one in widget.outputs:
        data = one.get("data", {PLAIN: one.get("text", "")})
        picture = next((kind for kind in IMAGES if kind in data), "")
        if picture:
            htmls.append(f'<img src="data:{picture};base64,{data[picture].strip()}">')
        else:
            htmls.append(data.get(HTML) or f"<pre>{escape(str(data.get(PLAIN, '')))}</pre>")
        texts.append(str(data.get(PLAIN, "")))
    return "".join(htmls), "".join(texts)


def _other(widget: Any) -> tuple[str, str]:
    value, words = getattr(widget, "value", None), str(getattr(widget, "description", ""))
    if value is not None:
        text = f"{words}: {value}" if words else str(value)
    else:
        text = words or repr(widget)[:_REPR_CHARACTERS]
    return escape(text), text


_KINDS: dict[str, Callable[[Any], tuple[str, str]]] = {
    "IntProgress": _progress,
    "FloatProgress": _progress,
    "Box": _box,
    "Output": _output,
    "HTML": _html,
    "HTMLMath": _html,
    "Image": _image,
}


def _wrap(module: Any) -> None:
    def show(widget: Any, **_: object) -> None:
        """Show the widget in the run; outside of one as ipywidgets does."""
        from IPython import get_ipython

        publish = get_ipython().display_pub.publish
        if current() is None:
            publish(widget._repr_mimebundle_())
            return
        html, text = render(widget)
        publish({HTML: html, PLAIN: text}, transient={"display_id": _identity(widget)})
        if widget not in _followed:
            _followed.add(widget)
            _follow(widget)

    if not hasattr(module.Widget, "_ipython_display_"):
        module.Widget._ipython_display_ = show


def _wrap_output(module: Any) -> None:
    kind = module.Output
    enter, leave = kind.__enter__, kind.__exit__
    if hasattr(enter, "__wrapped__"):
        return

    @functools.wraps(enter)
    def entered(widget: Any) -> Any:
        run = current()
        if run is None:
            return enter(widget)
        run.sinks.append(WidgetCapture(widget))
        return None

    @functools.wraps(leave)
    def left(widget: Any, *error: Any) -> Any:
        run = current()
        mine = [one for one in run.sinks if one.widget is widget] if run is not None else []
        if run is None or not mine:
            return leave(widget, *error)
        run.sinks.remove(mine[-1])
        return None  # an error, or a stop, is the run's

    kind.__enter__, kind.__exit__ = entered, left


def _follow(root: Any) -> None:
    """Show the widget again when something in it changes."""
    seen, shown = weakref.WeakSet[Any](), [render(root)]

    def changed(_: object) -> None:
        run, new = current(), render(root)
        if new != shown[0]:
            shown[0] = new
            watch()
            if run is not None:
                _update(run, root, new)

    def watch() -> None:
        for one in _parts(root):
            if one not in seen:
                seen.add(one)
                one.observe(changed)

    watch()


def _update(run: RunContext, widget: Any, new: tuple[str, str]) -> None:
    # Not by the publisher, which an Output widget may capture.
    run.log.display({HTML: new[0], PLAIN: new[1]}, {}, _identity(widget), update=True)


def _parts(widget: Any) -> Iterator[Any]:
    yield widget
    for child in getattr(widget, "children", ()):
        yield from _parts(child)


def _identity(widget: Any) -> str:
    return f"widget {id(widget)}"
