"""The terminal: stdout for results, stderr for messages, and a run shown live or in lines."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import Protocol, Self

import click
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from workbench.core.curves import Curve
from workbench.core.moment import is_due
from workbench.core.run.metrics import FoldedLine, fold_lines, fraction_done, group_names
from workbench.core.run.model import Run, RunState
from workbench.core.units import rank_numbers
from workbench.store import Store
from workbench.view.attempts import AttemptHeadings
from workbench.view.following import LIVE, FollowPace, check_success
from workbench.view.hang_text import hang_lines, is_hanging
from workbench.view.run_record import RunRecord
from workbench.view.state_line import SEPARATOR
from workbench.view.text import number, percent
from workbench.view.transcript import LineReader

WIDE = 240  # columns for a file or a pipe, where lines are not folded


def output() -> Console:
    """Return the console for results."""
    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=WIDE)


def notes() -> Console:
    """Return the console for messages."""
    return Console(stderr=True, highlight=False)


@contextmanager
def show_wait(
    what: str, *, lines: bool = False, shown_by: str = "workbench status"
) -> Iterator[Callable[[str], None]]:
    """Show the progress of a wait until it ends or is interrupted.

    Args:
        lines: Whether to print each change as a line when there is no terminal.
        shown_by: The command that shows the state after an interrupt.
    """
    console = notes()
    said = ""

    def write(state: str) -> None:
        nonlocal said
        if state != said:
            said = state
            click.echo(f"{what}: {state}", err=True)

    try:
        if lines and not console.is_terminal:
            yield write
            return
        with console.status(f"{what} …") as shown:
            yield lambda state: shown.update(f"{what}: {state}")
    except KeyboardInterrupt:
        click.echo(f"{what}: continues in the background; `{shown_by}` shows it.", err=True)
        raise


REFRESH_SECONDS = 0.25
REMIND_SECONDS = 30.0
MAX_CURVES = 6
SPARKS = "▁▂▃▄▅▆▇█"
SPARK_WIDTH = 40
# How long a line waits for the same one from another rank.
HOLD_SECONDS = 0.3
LONGEST_LINE = 10_000


class Screen(Protocol):
    """The interface of what shows a run."""

    def write(self, lines: Sequence[FoldedLine]) -> None:
        """Add lines of output."""

    def heading(self, text: str) -> None:
        """Add the heading of the output that follows."""

    def note(self, text: str) -> None:
        """Add a message of ours."""

    def draw(self, record: RunRecord, now: float, *, final: bool = False) -> None:
        """Update the progress, if it is due."""


class LiveScreen:
    """Output that scrolls, above a few lines that are redrawn in place.

    Args:
        console: A terminal.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live = Live(console=console, auto_refresh=False, redirect_stdout=False)
        self._drawn = -math.inf

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def write(self, lines: Sequence[FoldedLine]) -> None:
        """Print lines above the part that is redrawn."""
        for line in lines:
            text = Text.assemble((prefix(line.ranks), "cyan"), " ", line.text)
            self._console.print(text, soft_wrap=True)

    def heading(self, text: str) -> None:
        """Print the heading of the output that follows."""
        self._console.print(Text(text, "bold"), soft_wrap=True)

    def note(self, text: str) -> None:
        """Print a message of ours in another colour."""
        self._console.print(Text(text, "yellow"), soft_wrap=True)

    def draw(self, record: RunRecord, now: float, *, final: bool = False) -> None:
        """Redraw at most four times a second."""
        if final or is_due(self._drawn, now, REFRESH_SECONDS):
            self._drawn = now
            self._live.update(picture(record, now), refresh=True)


class PlainScreen:
    """Plain lines for a file or a pipe: output to one console, progress to the other.

    Args:
        output: Receives the output of ranks.
        notes: Receives our messages.
    """

    def __init__(self, output: Console, notes: Console) -> None:
        self._output = output
        self._notes = notes
        self._said, self._message, self._hung = "", "", False
        self._when = -math.inf

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def write(self, lines: Sequence[FoldedLine]) -> None:
        """Print lines with their ranks."""
        for line in lines:
            _plain(self._output, f"{prefix(line.ranks)} {line.text}")

    def heading(self, text: str) -> None:
        """Print the heading of the output that follows."""
        _plain(self._output, text)

    def note(self, text: str) -> None:
        """Print a message of ours."""
        _plain(self._notes, text)

    def draw(self, record: RunRecord, now: float, *, final: bool = False) -> None:
        """Print progress when the state changes, at every tenth, and periodically."""
        run = record.run
        self._say_hang(run)
        if final:
            return
        tenth = math.floor(10 * (fraction_done(run.fact) or 0))
        leaving = [node.id for node in record.reclaimed]
        stage = f"{run.fact.state} {tenth} {record.reason} {leaving}"
        running = run.fact.state is RunState.RUNNING
        if stage != self._said or (running and is_due(self._when, now, REMIND_SECONDS)):
            self._said, self._when = stage, now
            values = "".join(
                f"{SEPARATOR}{name} {number(_last(curve))}"
                for name, curve in _choose_curves(record)[:1]
            )
            self.note(f"{run.wish.name}: {record.line(now, known=self._message)}{values}")
            self._message = run.fact.message

    def _say_hang(self, run: Run) -> None:
        """Print once which ranks wait for which others."""
        who = is_hanging(run) and not run.fact.state.ended
        if who and not self._hung:
            for line in hang_lines(run):
                self.note(line)
        self._hung = who


RunScreen = LiveScreen | PlainScreen


def screen_for(output: Console, notes: Console) -> RunScreen:
    """Return the live screen for a terminal, the plain one otherwise."""
    return LiveScreen(output) if output.is_terminal else PlainScreen(output, notes)


def picture(record: RunRecord, now: float) -> RenderableType:
    """Return state, progress bar and the newest values of a run with their curves.

    Args:
        record: The run as read so far.
        now: Epoch seconds.
    """
    run = record.run
    title = Text.assemble((run.wish.name, "bold"), ": ", record.line(now))
    parts: list[RenderableType] = [title]
    colour = "bold yellow" if is_hanging(run) else ""
    parts += [Text(line, colour) for line in hang_lines(run)]
    done = fraction_done(run.fact)
    if done is not None:
        row = Table.grid(padding=(0, 1))
        row.add_row(ProgressBar(1.0, done, width=SPARK_WIDTH), percent(run.fact))
        parts.append(row)
    values = Table.grid(padding=(0, 2))
    for name, curve in _choose_curves(record):
        values.add_row(name, f"{number(_last(curve)):<10}", Text(sparkline(curve), "green"))
    return Group(*parts, values) if values.row_count else Group(*parts)


def prefix(ranks: tuple[int, ...]) -> str:
    """Return the prefix of a line of output: ``[0]`` or ``[0-3]``."""
    return f"[{rank_numbers(ranks)}]"


def sparkline(curve: Curve, width: int = SPARK_WIDTH) -> str:
    """Return the shape of a curve as one line of block characters, scaled to its range."""
    means = [value for value in curve.trace().mean if math.isfinite(value)]
    if not means:
        return ""
    columns = min(width, len(means))
    edges = [round(i * len(means) / columns) for i in range(columns + 1)]
    cells = [sum(means[a:b]) / (b - a) for a, b in pairwise(edges)]
    low, high = min(cells), max(cells)
    scale = (len(SPARKS) - 1) / (high - low) if high > low else 0.0
    return "".join(SPARKS[round((cell - low) * scale)] for cell in cells)


def _choose_curves(record: RunRecord) -> list[tuple[str, Curve]]:
    names = [name for group in group_names(record.curves) for name in group.names]
    return [(name, record.curves[name]) for name in names[:MAX_CURVES]]


def _last(curve: Curve) -> float:
    return curve.trace().mean[-1]


def _plain(console: Console, text: str) -> None:
    console.print(text, markup=False, highlight=False, emoji=False, soft_wrap=True)


class RankOutput:
    """A buffer that folds identical lines of several ranks.

    Args:
        only: Keep the lines of this rank; None for all.
    """

    def __init__(self, only: int | None = None) -> None:
        self._only = only
        self._readers: dict[int, LineReader] = {}
        self._lines: dict[int, list[tuple[float, str]]] = {}

    def feed(self, rank: int, text: str, now: float) -> None:
        """Add a piece of the output of ``rank``."""
        if self._only in (None, rank):
            reader = self._readers.setdefault(rank, LineReader())
            lines = self._lines.setdefault(rank, [])
            lines += [(now, line) for line in reader.feed(text, LONGEST_LINE)]

    def take(self, now: float, *, final: bool = False) -> list[FoldedLine]:
        """Return the lines that every rank has written, and those older than the limit.

        Args:
            now: Seconds, by the clock that ``feed`` was given.
            final: Whether the output is complete.
        """
        if final:
            for rank in [rank for rank, reader in self._readers.items() if reader.partial]:
                self.feed(rank, "\n", now)
        taken = []
        used = dict.fromkeys(self._lines, 0)
        held: set[int] = set()  # ranks whose next line waits, and so all that follow it
        for line in fold_lines({rank: [t for _, t in rows] for rank, rows in self._lines.items()}):
            shared = len(line.ranks) == len(self._lines) > 1
            oldest = min(self._lines[rank][used[rank]][0] for rank in line.ranks)
            due = final or shared or is_due(oldest, now, HOLD_SECONDS)
            if held.isdisjoint(line.ranks) and due:
                taken.append(line)
                for rank in line.ranks:
                    used[rank] += 1
            else:
                held.update(line.ranks)
        for rank, amount in used.items():
            del self._lines[rank][:amount]
        return taken


class TerminalRunView:
    """One run on one screen.

    Args:
        run: The run to show.
        screen: Where to show it.
        only: Show the output of this rank; None for all.
        after: Sequence number of output that is not shown, nor what is before it.
    """

    def __init__(
        self, run: Run, screen: Screen, only: int | None = None, *, after: int = 0
    ) -> None:
        self.record = RunRecord(run, after=after)
        self._screen = screen
        self._output = RankOutput(only)
        self._headings = AttemptHeadings(run.id)

    def __repr__(self) -> str:
        return f"<TerminalRunView of {self.record.run!r}>"

    @property
    def pace(self) -> FollowPace:
        """How often the screen is redrawn during a long run."""
        return LIVE

    def read(self, store: Store, now: float) -> None:
        """Read what is new in the store.

        Args:
            now: Epoch seconds.
        """
        for rows in self.record.read(store, now):
            for heading, pieces in self._headings.split(store, rows):
                if heading:
                    self._screen.write(self._output.take(now, final=True))
                    self._screen.heading(f"==> {heading} <==")
                for row in pieces:
                    self._output.feed(row.rank, row.text, now)

    def note(self, text: str) -> None:
        """Show a message about something that happened meanwhile."""
        self._screen.note(text)

    def draw(self, now: float) -> None:
        """Write the lines that are due, and the progress.

        Args:
            now: Epoch seconds.
        """
        self._screen.write(self._output.take(now))
        self._screen.draw(self.record, now)

    def finish(self, store: Store, now: float) -> None:
        """Write all remaining lines.

        Args:
            now: Epoch seconds.
        """
        self._screen.write(self._output.take(now, final=True))
        self._screen.draw(self.record, now, final=True)


def exit_code(run: Run) -> int:
    """Return the exit code for the run's final state.

    Raises:
        RunFailed: A rank failed, or the run was lost.
    """
    check_success(run)
    return 130 if run.fact.state is RunState.STOPPED else 0
