"""The output of ranks: folded lines as a terminal shows them, and displays, in bounded memory.

Displays become safe content: ranks are not trusted, and pages run scripts.
"""

from __future__ import annotations

import json
import re
import shlex
from base64 import b64encode
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from types import MappingProxyType
from typing import Any

from workbench.core.run.display import (
    CLEAR,
    DISPLAY,
    HTML,
    IMAGES,
    JSON,
    MARKDOWN,
    PLAIN,
    SVG,
    UPDATE,
)
from workbench.core.run.metrics import FoldedLine, fold_lines
from workbench.core.units import count, rank_ranges
from workbench.store import OutputRow
from workbench.store.displays import DisplayContent
from workbench.view.html import Html, element, image, join_html, sanitize_output, sentence, words

Data = Mapping[str, str]
Sizes = Mapping[str, Mapping[str, int]]

# In Markdown: tags, external images, and possible script URLs.
_RISKY = re.compile(r"<[A-Za-z/!?]|!\[|&#?\w+;|script\s*\\?:", re.IGNORECASE)

_ESCAPES = re.compile(
    r"(?:\x1b\[|\x9b)[0-9;?]*[ -/]*[@-~]"
    r"|(?:\x1b\]|\x9d)[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)"
    r"|[\x00-\x08\x0b-\x1f\x7f-\x9f]"
)

KEPT_CHARACTERS = 300_000
PREVIEW_CHARACTERS = 4_000
# A line that marks a display; no line that a rank wrote has this character.
_MARK = "\0"
_NEWLINE = "\n"
_TEXT = "text"


class LineReader:
    """Splits the output of one rank into lines."""

    def __init__(self) -> None:
        self._partial = ""

    def feed(self, text: str, limit: int) -> list[str]:
        """Add a piece of output and return the lines that it completes.

        Args:
            limit: Number of newest characters kept of an unfinished line.
        """
        *whole, partial = (self._partial + text).split("\n")
        self._partial = _last_stage(partial)[-limit:]
        return [render_line(line) for line in whole]

    @property
    def partial(self) -> str:
        """The unfinished line."""
        return render_line(self._partial) if self._partial else ""


def render_line(line: str) -> str:
    """Return what a terminal shows of ``line``: the last state of a progress bar, no colours."""
    return _ESCAPES.sub("", _last_stage(line))


def _last_stage(line: str) -> str:
    """Return the text after the last carriage return that has text after it."""
    end = len(line.rstrip("\r"))
    return line[line.rfind("\r", 0, end) + 1 :]


class RankLines:
    """The newest lines of one rank."""

    def __init__(self) -> None:
        self.lines: deque[str] = deque()
        self.dropped = 0
        self.words: dict[int, str] = {}  # displays, by position
        self._reader = LineReader()
        self._size = 0

    def feed(self, text: str, limit: int) -> None:
        """Add a piece of output; keep about the last ``limit`` characters."""
        if len(text) > 2 * limit and (cut := text.rfind("\n", 0, -limit) + 1):
            self._drop_all(text.count("\n", 0, cut))
            text = text[cut:]
        for line in self._reader.feed(text, limit):
            self.lines.append(line[:limit])
            self._size += len(self.lines[-1]) + 1
        while self._size > limit and len(self.lines) > 1:
            self._size -= len(self.lines.popleft()) + 1
            self.dropped += 1

    def _drop_all(self, lines: int) -> None:
        """Drop all lines, and count ``lines`` that were never read."""
        self.dropped += len(self.lines) + lines
        self.lines.clear()
        self._size, self._reader = 0, LineReader()

    def mark(self, place: int, words: str) -> None:
        """Mark the position of a display, with ``words`` as its text."""
        self.words[place] = words.rstrip("\n")
        self.lines.append(f"{_MARK}{place}")
        self._size += len(self.lines[-1]) + 1

    def tail(self, limit: int) -> list[str]:
        """Return the newest lines, together at most ``limit`` characters, but at least one."""
        newest: list[str] = []
        partial = self._reader.partial[-limit:]
        for line in ([partial] if partial else []) + list(reversed(self.lines)):
            limit -= len(line) + 1
            if limit < 0 and newest:
                break
            newest.append(line)
        return newest[::-1]

    @property
    def written(self) -> int:
        """Lines written so far."""
        return self.dropped + len(self.lines) + bool(self._reader.partial)


class Transcript:
    """The output and displays of all ranks.

    Args:
        run: Its name, for the command that prints all output.
        is_cut: Whether only the newest part of the output is added.
    """

    def __init__(self, run: str = "", *, is_cut: bool = False) -> None:
        self._is_cut = is_cut
        self.ranks: dict[int, RankLines] = {}
        self.whole = (
            f"all are in `workbench logs{' ' * bool(run)}{shlex.quote(run) if run else ''}`"
        )

    def feed_all(self, rows: Iterable[OutputRow]) -> None:
        """Add many pieces; consecutive ones of the same rank are joined."""
        for (_, stream), group in groupby(rows, key=lambda row: (row.rank, _kind(row))):
            pieces = [*group]
            if stream == _TEXT:
                pieces = [pieces[0]._replace(text="".join(piece.text for piece in pieces))]
            for piece in pieces:
                self.feed(piece)

    def feed(self, row: OutputRow) -> None:
        """Add a piece of output."""
        if row.stream == CLEAR:
            self.ranks.pop(row.rank, None)
            return
        lines = self.ranks.setdefault(row.rank, RankLines())
        if row.stream == DISPLAY:
            lines.mark(row.place, row.text)
        else:
            lines.feed(row.text, KEPT_CHARACTERS // max(1, len(self.ranks)))

    def count_lines(self, ranks: Iterable[int]) -> int:
        """Return how many lines ``ranks`` wrote so far."""
        return sum(self.ranks[rank].written for rank in ranks)

    def html(
        self,
        *,
        streamed: frozenset[int],
        final: bool,
        shown: Mapping[int, DisplayContent] = MappingProxyType({}),
    ) -> Html:
        """Return the output, folded: the newest lines of each rank, all when ``final``.

        Args:
            streamed: Ranks whose output is on the page already.
            shown: The displays by position; missing ones are replaced by their text.
        """
        hidden = set(self.ranks) - streamed
        if not hidden:
            return words("")
        blocks = [self._block({0}, final, shown, is_open=True)] if 0 in hidden else []
        others = hidden - {0}
        blocks += [self._block(others, final, shown, is_open=False)] if others else []
        return join_html(blocks)

    def text(self, ranks: Iterable[int]) -> str:
        """Return the newest output of ``ranks`` as text."""
        return "\n".join(
            f"{rank_ranges(line.ranks)} | {self._replace_mark(line)}"
            for line in self._fold(ranks, False)
        )

    def _block(
        self, ranks: set[int], final: bool, shown: Mapping[int, DisplayContent], *, is_open: bool
    ) -> Html:
        lines = [line for line in self._fold(ranks | {0}, final) if ranks & set(line.ranks)]
        width = max((len(rank_ranges(line.ranks)) for line in lines), default=0)
        alone = len(ranks) == 1
        blocks = self._blocks(lines, 0 if alone else width, shown)
        title = f"Output of {rank_ranges(ranks)}: {count(self.count_lines(ranks), 'line')}"
        written = sum(len(ranks & set(line.ranks)) for line in lines)
        if self._is_cut:
            title = f"Output of {rank_ranges(ranks)}: the newest {count(written, 'line')} here"
        elif written < self.count_lines(ranks):
            title += f", the newest {written:,} here"
        if final and (self._is_cut or written < self.count_lines(ranks)):
            title += f"; earlier lines are left out, {self.whole}"
        return element("details", element("summary", sentence(title)), *blocks, open=is_open)

    def _blocks(
        self, lines: Iterable[FoldedLine], width: int, shown: Mapping[int, DisplayContent]
    ) -> Iterator[Html]:
        """Yield lines in HTML, with displays between them.

        Args:
            width: Of the ranks before each line; 0 for none.
        """
        text = ""
        for line in lines:
            prefix = f"{rank_ranges(line.ranks):<{width}} | " if width else ""
            found = shown.get(int(line.text[1:])) if line.text.startswith(_MARK) else None
            if found is None:
                text += f"{prefix}{self._replace_mark(line)}{_NEWLINE}"
                continue
            if before := f"{text}{prefix}".removesuffix(_NEWLINE):
                yield element("pre", before)
            yield element("div", static_html(found.data, found.metadata))
            text = ""
        if text:
            yield element("pre", text.removesuffix(_NEWLINE))

    def _replace_mark(self, line: FoldedLine) -> str:
        if not line.text.startswith(_MARK):
            return line.text
        return self.ranks[line.ranks[0]].words.get(int(line.text[1:]), "")

    def _fold(self, ranks: Iterable[int], final: bool) -> list[FoldedLine]:
        present = [rank for rank in ranks if rank in self.ranks]
        limit = (KEPT_CHARACTERS if final else PREVIEW_CHARACTERS) // max(1, len(present))
        return fold_lines({rank: self.ranks[rank].tail(limit) for rank in present})


def _kind(row: OutputRow) -> str:
    return row.stream if row.stream in (CLEAR, DISPLAY, UPDATE) else _TEXT


def notebook_bundle(data: Data) -> dict[str, Any]:
    """Return ``data`` as an output that is safe in a trusted notebook.

    An SVG picture becomes an image, in which no script runs.
    """
    made: dict[str, Any] = {kind: data[kind] for kind in data if kind not in (HTML, SVG, MARKDOWN)}
    if HTML in data:
        made[HTML] = sanitize_output(data[HTML])
    elif SVG in data and not made.keys() & {*IMAGES}:
        made[HTML] = picture(SVG, data[SVG])
    if MARKDOWN in data:
        is_risky = _RISKY.search(data[MARKDOWN]) is not None
        made.setdefault(PLAIN if is_risky else MARKDOWN, data[MARKDOWN])
    if JSON in made:
        made[JSON] = _parse(data[JSON])
    return made


def static_html(data: Data, metadata: Sizes) -> Html:
    """Return ``data`` as self-contained HTML: an image, safe markup, or text."""
    kind = next((kind for kind in IMAGES if kind in data), "")
    if HTML in data:
        return sanitize_output(data[HTML])
    if kind:
        return picture(kind, data[kind], data.get(PLAIN, ""), metadata.get(kind, {}))
    if SVG in data:
        return picture(SVG, data[SVG], data.get(PLAIN, ""))
    return element("pre", next(iter(data.values()), ""))


def picture(kind: str, data: str, words: str = "", size: Mapping[str, int] | None = None) -> Html:
    """Return an image, given in base64 or as SVG, as HTML."""
    encoded = b64encode(data.encode()).decode() if kind == SVG else data
    sides = {side: int(pixels) for side, pixels in (size or {}).items()}
    return image(encoded, words, kind, "max-width: 100%", **sides)


def _parse(text: str) -> Any:
    try:
        return json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return text


def _refuse(name: str) -> float:
    raise ValueError(f"{name} is not valid JSON")
