"""Read HTML as a page does: its text, and what MathJax would typeset in it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html.parser import HTMLParser

from workbench.view.html import VOID

_INSIDE = {"br", "wbr"}  # elements across which MathJax reads on
_SKIPPED = {"script", "noscript", "style", "textarea", "pre", "code"}
_MATHEMATICS = re.compile(
    r"\$\$.+?\$\$|\$.+?\$|\\\(.+?\\\)|\\\[.+?\\\]|\\begin\{(.*?)\}.*?\\end\{\1\}|\\(?:eq)?ref\{",
    re.DOTALL,
)


class _Reader(HTMLParser):
    """Parts the text as MathJax does: at each element, but for line breaks."""

    def __init__(self) -> None:
        super().__init__()
        self.strings: list[str] = [""]
        self.skipped = 0
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag in _INSIDE:
            self.handle_data("\n")
            return
        self.strings.append("")
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        while self.open and self.open.pop() != tag:
            pass
        self.strings.append("")

    def handle_data(self, data: str) -> None:
        self.strings[-1] += data
        if _SKIPPED & {*self.open}:
            self.strings[-1:] = [f"\0{self.strings[-1]}", ""]


def _read(html: str) -> list[str]:
    reader = _Reader()
    reader.feed(html)
    reader.close()
    return reader.strings


def text_of(html: str) -> str:
    """Return all text of ``html``."""
    return "".join(_read(html)).replace("\0", "")


def mathematics(html: str) -> Iterator[str]:
    """Yield what MathJax, as JupyterLab and nbviewer set it up, would typeset."""
    for string in _read(html):
        if not string.startswith("\0"):
            yield from (found[0] for found in _MATHEMATICS.finditer(string))
