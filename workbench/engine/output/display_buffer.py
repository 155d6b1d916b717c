"""Buffer a rank's displays in a run, limited, with only the newest of each display id."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import NamedTuple

from workbench.core.run.display import (
    CLEAR,
    DISPLAY,
    PLAIN,
    RUN_CHARACTERS,
    RUN_DISPLAYS,
    UPDATE,
    Action,
    Display,
    limit_display,
    size_of,
)
from workbench.core.run.rank_protocol import Chunk

# The rate limit for updates of displays: more would fill disks and the channel.
CHARACTERS_A_SECOND = 256_000
CHARACTERS_AT_ONCE = 4_000_000
FULL = (
    f"workbench: this display and the following ones are left out: at most {RUN_DISPLAYS} displays "
    f"with {RUN_CHARACTERS:,} characters in all are kept per rank; clear_output() frees "
    "space.\n"
)
TOO_LARGE = f"This display exceeds the limit of {RUN_CHARACTERS:,} characters for all displays."


class DisplayMark(NamedTuple):
    """The position of a display in a rank's output; its content may still change."""

    action: Action
    time: float
    place: int = 0


Noted = Chunk | DisplayMark
Content = tuple[Mapping[str, str], Mapping[str, Mapping[str, int]]]


class DisplayBuffer:
    """The displays of one rank in one run.

    Any thread may add, another one takes.

    Args:
        note: Called with marks and messages, in order.
    """

    def __init__(self, note: Callable[[Noted], None]) -> None:
        self._note = note
        self._lock = threading.Lock()
        self._named: dict[str, list[int]] = {}  # display ids, each with its places
        self._standing: dict[int, int] = {}  # places, each with its number of characters
        self._news: dict[int, Content] = {}  # contents that were not taken yet
        self._count = 0
        self._left_out = 0
        self._clears_next = False
        self._credit, self._credited = float(CHARACTERS_AT_ONCE), time.monotonic()

    def show(
        self,
        data: Mapping[str, str],
        metadata: Mapping[str, Mapping[str, int]],
        identity: str = "",
        *,
        update: bool = False,
    ) -> None:
        """Show ``data`` in a new place, or in all places with this ``identity``."""
        content = limit_display(data), metadata
        with self._lock:
            if update:
                for place in self._named.get(identity, ()):
                    self._replace(place, content)
            elif content[0]:
                self._carry_out_clear()
                self._add(content, identity)

    def clear(self, *, wait: bool) -> None:
        """Remove what is displayed: now, or with ``wait`` when the next output comes."""
        with self._lock:
            self._clears_next = True
            if not wait:
                self._carry_out_clear()

    def make_way(self) -> None:
        """Apply a delayed ``clear``, as text comes now."""
        if self._clears_next:
            with self._lock:
                self._carry_out_clear()

    def close(self) -> None:
        """Report how many displays were left out; nothing follows."""
        if self._left_out > 1:
            text = f"workbench: {self._left_out:,} displays of this rank were left out.\n"
            self._note(Chunk("stderr", time.time(), text))

    def take(
        self, queue: deque[Noted], characters: int, pieces: int, *, whole: bool = False
    ) -> list[Chunk | Display]:
        """Take from ``queue`` what may be sent now: text, and the displays at its marks.

        Args:
            characters: About how many to take at most.
            pieces: How many to take at most.
            whole: Whether to ignore the rate limit.
        """
        taken, size = list[Chunk | Display](), 0
        for _ in range(min(len(queue), pieces)):
            if size >= characters:
                break
            if isinstance(queue[0], DisplayMark) and not whole and not self._may_send():
                break
            noted = queue.popleft()
            found = noted if isinstance(noted, Chunk) else self._take_display(noted)
            if found is not None:
                taken.append(found)
                size += len(found.text) if isinstance(found, Chunk) else found.size
        clears = [at for at, one in enumerate(taken) if _is_clear(one)]
        last = clears[-1] if clears else -1
        # Displays that the same batch removes were never visible; their text is for the log.
        return [one for at, one in enumerate(taken) if at >= last or isinstance(one, Chunk)]

    # -- inside, with the lock held

    def _add(self, content: Content, identity: str) -> None:
        size = size_of(content[0])
        full = len(self._standing) >= RUN_DISPLAYS
        if full or sum(self._standing.values()) + size > RUN_CHARACTERS:
            self._left_out += 1
            if self._left_out == 1:
                self._note(Chunk("stderr", time.time(), FULL))
            return
        self._count += 1
        if identity:
            self._named.setdefault(identity, []).append(self._count)
        self._standing[self._count] = size
        self._news[self._count] = content
        self._note(DisplayMark(DISPLAY, time.time(), self._count))

    def _replace(self, place: int, content: Content) -> None:
        others = sum(self._standing.values()) - self._standing[place]
        if others + size_of(content[0]) > RUN_CHARACTERS:
            content = {PLAIN: TOO_LARGE}, {}
        self._standing[place] = size_of(content[0])
        is_marked = place in self._news
        self._news[place] = content
        if not is_marked:
            self._note(DisplayMark(UPDATE, time.time(), place))

    def _carry_out_clear(self) -> None:
        if self._clears_next:
            self._clears_next = False
            self._named.clear()
            self._standing.clear()
            self._news.clear()
            self._note(DisplayMark(CLEAR, time.time()))

    # -- inside, for the thread that takes

    def _take_display(self, mark: DisplayMark) -> Display | None:
        if mark.action == CLEAR:
            return Display(CLEAR, mark.time)
        with self._lock:
            content = self._news.pop(mark.place, None)
        if content is None:
            return None  # it was removed
        self._credit -= size_of(content[0])
        return Display(mark.action, mark.time, mark.place, *content)

    def _may_send(self) -> bool:
        now = time.monotonic()
        earned = (now - self._credited) * CHARACTERS_A_SECOND
        self._credit = min(self._credit + earned, float(CHARACTERS_AT_ONCE))
        self._credited = now
        return self._credit > 0


def _is_clear(one: Chunk | Display) -> bool:
    return isinstance(one, Display) and one.action == CLEAR
