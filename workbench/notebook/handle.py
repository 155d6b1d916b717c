"""Follow runs in the background, and hold on to one."""

from __future__ import annotations

import threading
import time

from workbench.core.run import RunState
from workbench.errors import StateError, WorkbenchError
from workbench.notebook.page import NotebookPage, Page
from workbench.notebook.run_view import RunView
from workbench.store import Store
from workbench.view.following import POLL_SECONDS, check_success, follow

_watchers: dict[str, Watcher] = {}


class RunHandle:
    """A run that goes on while the prompt is free.

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
        """Where the run stands now."""
        with Store() as store:
            return store.run(self.id).fact.state

    @property
    def values(self) -> dict[str, float]:
        """The last value of every name, averaged over the ranks."""
        with Store() as store:
            return store.final_values(self.id)

    def wait(self, timeout: float | None = None) -> RunHandle:
        """Wait until the run has ended.

        Args:
            timeout: Seconds; None to wait for as long as it takes.

        Raises:
            RunFailed: A rank failed.
            StateError: The run goes on after ``timeout``.
        """
        watcher = _watchers.get(self.id) or watch(self.id, SilentPage())
        watcher.join(timeout)
        if timeout is not None and watcher.is_alive():
            raise StateError(f"Run {self.name!r} goes on after {timeout:g} s; wait longer.")
        if watcher.error:
            raise watcher.error
        with Store() as store:
            check_success(store.run(self.id))
        return self

    def stop(self) -> None:
        """Ask for the run to stop; it does so at an iteration boundary."""
        with Store() as store:
            store.wish_stop(self.id)

    def view(self) -> None:
        """Show the run here, from its first point on, and keep it up to date."""
        watch(self.id, NotebookPage())


class SilentPage:
    """Shows nothing."""

    def show(self, place: str, bundle: object, *, final: bool = False) -> None:
        """Draw nothing."""

    def write(self, stream: str, text: str) -> None:
        """Write nothing."""


class Watcher(threading.Thread):
    """Keeps one view of one run up to date, until the run ends or another view takes over."""

    def __init__(self, view: RunView) -> None:
        super().__init__(daemon=True, name=f"workbench view of {view.record.run.id}")
        self.error: WorkbenchError | None = None
        self._view = view
        self._superseded = threading.Event()

    def leave(self) -> None:
        """Follow no longer."""
        self._superseded.set()

    def run(self) -> None:
        """Follow until the run has ended."""
        try:
            with Store() as store:
                follow(store, self._view, left=self._superseded.is_set)
        except WorkbenchError as error:
            self.error = error
            self._view.give_up(error)
        finally:
            if _watchers.get(self._view.record.run.id) is self:
                del _watchers[self._view.record.run.id]


def watch(run: str, page: Page) -> Watcher:
    """Show ``run`` on ``page`` at once and keep it up to date from a thread.

    An earlier view of the same run in this process is left as it is.
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
    """Follow no run any longer; the runs go on."""
    for watcher in list(_watchers.values()):
        watcher.leave()
        watcher.join(2.0)
