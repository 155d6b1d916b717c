"""Show a run in the terminal while it is followed."""

from __future__ import annotations

from workbench.cli.screen import RankOutput, Screen
from workbench.core.run.model import Run, RunState
from workbench.store import Store
from workbench.view.attempt_headings import AttemptHeadings
from workbench.view.following import LIVE, FollowPace, check_success
from workbench.view.run_record import RunRecord


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
