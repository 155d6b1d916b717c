"""A thread that exchanges buckets while the main thread computes."""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import SimpleQueue


class Worker:
    """Does one job after the other; blocking calls in it are what makes MPI progress.

    There is one for all exchanges between the same ranks: they go the same way with the same
    tags, so that two at a time would take each other's messages.
    """

    def __init__(self) -> None:
        self._jobs: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._idle = threading.Condition()
        self._waiting = 0
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._work, name="workbench-exchange", daemon=True)
        self._thread.start()

    @property
    def is_here(self) -> bool:
        """Whether who asks is one of its own jobs."""
        return threading.current_thread() is self._thread

    def submit(self, job: Callable[[], None]) -> None:
        """Have ``job`` done after those before it; none is done after one that failed."""
        with self._idle:
            self._waiting += 1
        self._jobs.put(job)

    def wait(self) -> None:
        """Wait until all jobs are done; raise what one of them raised. A job does not wait."""
        if self.is_here:
            return
        with self._idle:
            self._idle.wait_for(lambda: not self._waiting)
            error, self._error = self._error, None
        if error is not None:
            raise error

    def _work(self) -> None:
        while True:
            job = self._jobs.get()
            try:
                if self._error is None:
                    job()
            except BaseException as error:  # noqa: BLE001  # raised again where it is waited for
                self._error = error
            with self._idle:
                self._waiting -= 1
                self._idle.notify_all()
