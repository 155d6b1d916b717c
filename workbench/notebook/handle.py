"""Follow runs in the background, and the handle of such a run."""

from __future__ import annotations

import threading
import time

from workbench.core.run.model import RunState
from workbench.errors import Interrupted, StateError, WorkbenchError
from workbench.notebook.cell_output import CellDisplay, NotebookDisplay
from workbench.notebook.kernel import kernel_advice
from workbench.notebook.run_view import RunView
from workbench.store import Store
from workbench.store.reports import PointRow
from workbench.view.about_run import points_of
from workbench.view.following import POLL_SECONDS, check_success, follow

_watchers: dict[str, Watcher] = {}


class RunHandle:
    """The handle of a run in the background.

    Args:
        run: The run's id.
        name: Its name.
    """

    def __init__(self, run: str, name: str) -> None:
        self.id = run
        self.name = name

    def __repr__(self) -> str:
        with Store() as store:
            fact = store.run(self.id).fact
        return f"<RunHandle {self.name}: {fact.state}, iteration {fact.iteration}>"

    @property
    def state(self) -> RunState:
        """The run's current state."""
        with Store() as store:
            return store.run(self.id).fact.state

    @property
    def values(self) -> dict[str, float]:
        """The last value of every name, the median over the ranks."""
        with Store() as store:
            return store.reports.final_values(self.id)

    def wait(self, timeout: float | None = None) -> RunHandle:
        """Wait until the run has ended.

        Args:
            timeout: Seconds; None to wait without a limit.

        Raises:
            Interrupted: The user interrupted; the run continues.
            RunFailed: A rank failed.
            StateError: The run is still active after ``timeout``.
        """
        watcher = _watchers.get(self.id) or watch(self.id, SilentDisplay())
        try:
            watcher.join(timeout)
        except KeyboardInterrupt:
            raise Interrupted(f"Run {self.name!r} continues in the background.") from None
        if timeout is not None and watcher.is_alive():
            raise StateError(
                f"Run {self.name!r} is still running after {timeout:g} s", "wait longer."
            )
        if watcher.error:
            raise watcher.error
        with Store() as store:
            run = store.run(self.id)
            check_success(run, advice=kernel_advice(run))
        return self

    def points(self) -> list[PointRow]:
        """Return every reported value of every rank; ``pandas.DataFrame(handle.points())``."""
        with Store() as store:
            return [*points_of(store, self.id)]

    def stop(self) -> None:
        """Request that the run stops, at an iteration boundary."""
        with Store() as store:
            store.wish_stop(self.id)

    def view(self) -> None:
        """Show the run here, from its first point, and keep it up to date."""
        watch(self.id, NotebookDisplay())


class SilentDisplay:
    """An output area that shows nothing."""

    def show(
        self, place: str, bundle: object, metadata: object = None, *, final: bool = False
    ) -> None:
        """Draw nothing."""

    def write(self, stream: str, text: str) -> None:
        """Write nothing."""

    def put(self, place: str, bundle: object, metadata: object) -> None:
        """Show nothing."""

    def clear(self) -> None:
        """Clear nothing."""


class Watcher(threading.Thread):
    """A thread that updates one view of one run, until the run ends or another view replaces it."""

    def __init__(self, view: RunView) -> None:
        super().__init__(daemon=True, name=f"workbench view of {view.record.run.id}")
        self.error: WorkbenchError | None = None
        self._view = view
        self._superseded = threading.Event()

    def leave(self) -> None:
        """Stop following."""
        self._superseded.set()

    def run(self) -> None:
        """Follow until the run has ended."""
        try:
            with Store() as store:
                left = self._superseded
                follow(store, self._view, left=left.is_set, pause=left.wait)
        except WorkbenchError as error:
            self.error = error
            self._view.give_up(error)
        finally:
            if _watchers.get(self._view.record.run.id) is self:
                del _watchers[self._view.record.run.id]


def watch(run: str, page: CellDisplay) -> Watcher:
    """Show ``run`` on ``page`` and update it from a thread.

    An earlier view of the same run in this process is no longer updated.
    """
    with Store() as store:
        view = RunView(store.run(run), page, streams=False)
        now = time.time()
        view.read(store, now)
        view.draw(now)
    former = _watchers.get(run)
    if former:
        former.leave()
        former.join(10 * POLL_SECONDS)
    watcher = _watchers[run] = Watcher(view)
    watcher.start()
    return watcher


def leave_all() -> None:
    """Stop following all runs; the runs continue."""
    for watcher in list(_watchers.values()):
        watcher.leave()
        watcher.join(2.0)
