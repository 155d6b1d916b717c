"""Run ipyparallel's controller so that changes of the wall clock do not stop it.

tornado schedules periodic calls by the wall clock. If that is set back by an hour, the controller
would not ping its engines for that hour, and after a minute all of them would end.
"""

from __future__ import annotations

from tornado.ioloop import PeriodicCallback

_next_after = PeriodicCallback._update_next


def _update_next(self: PeriodicCallback, current_time: float) -> None:
    """Schedule the next call at most one period from now, whatever the wall clock shows."""
    period = self.callback_time / 1000.0
    self._next_timeout = min(self._next_timeout, current_time + period)
    _next_after(self, current_time)
    self._next_timeout = min(self._next_timeout, current_time + period)


# Processes that the controller forks for its heartbeat and its queues inherit it.
PeriodicCallback._update_next = _update_next  # type: ignore[method-assign]  # tornado has no hook


if __name__ == "__main__":
    from ipyparallel.controller.app import main

    main()
