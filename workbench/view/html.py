r"""HTML elements with escaped text, which no page renders as mathematics.

Each character that can begin mathematics (``$``, and the backslash of ``\(``, ``\[`` and
``\begin``) gets its own element. MathJax never reads across elements, in JupyterLab as on nbviewer
and GitHub, whether a sanitizer keeps classes or not.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from html import escape

from workbench.core.curves.safe_html import VOID, harmless

_SIGN = re.compile(r"[$\\]")
_CODE = re.compile("`([^`]+)`")


class Html(str):
    """Text that is safe HTML, unlike ordinary strings."""

    __slots__ = ()


def words(text: str) -> Html:
    """Return text as HTML that shows the same characters."""
    if isinstance(text, Html):
        return text
    return Html(_SIGN.sub(_isolate, escape(text, quote=False)))


def sentence(text: str) -> Html:
    """Return text as HTML, with the parts in backticks as code."""
    if isinstance(text, Html):
        return text
    # Every second part is a match of the pattern's group.
    parts = enumerate(_CODE.split(text))
    return join_html(element("code", part) if place % 2 else words(part) for place, part in parts)


def element(name: str, /, *content: str, **attributes: str | float | bool | None) -> Html:
    """Return an element, whose ordinary text is escaped.

    Args:
        attributes: ``class_`` and ``aria_label`` are ``class`` and ``aria-label``. True is an
            attribute without a value; None and False are omitted.
    """
    written = "".join(
        f" {key.rstrip('_').replace('_', '-')}" + ("" if value is True else f'="{_quote(value)}"')
        for key, value in attributes.items()
        if value is not None and value is not False
    )
    inside = "" if name in VOID else f"{join_html(content)}</{name}>"
    return Html(f"<{name}{written}>{inside}")


def join_html(parts: Iterable[str]) -> Html:
    """Return parts one after another, with ordinary text escaped."""
    return Html("".join(map(words, parts)))


def image(
    data: str,
    description: str,
    kind: str = "image/png",
    style: str = "max-width: 100%; width: 810px",
    **sides: int,
) -> Html:
    """Return a picture, given in base64, that needs no other file."""
    source = f"data:{kind};base64,{data}"
    return element("img", alt=description, src=source, **sides, style=style)


def sanitize_output(html: str) -> Html:
    """Return the output of user code: sanitized, with mathematics as written."""
    return Html(harmless(html))


def _isolate(sign: re.Match[str]) -> str:
    return f"<span>&#{ord(sign[0])};</span>"


def _quote(value: str | float) -> str:
    return escape(str(value), quote=True)
