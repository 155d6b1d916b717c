"""Run ipyparallel's controller with heartbeats that wait for no clock.

tornado schedules periodic calls by the wall clock. If that is set back by an hour, the controller
would not ping its engines for that hour, and after a minute all of them would end.

An engine is registered when its heart has answered a ping. ipyparallel sends that at its next
period and looks for the answer at the one after, up to a second later; here both happen at once.
"""

from __future__ import annotations

from typing import Any

import zmq
from ipyparallel.controller import heartmonitor
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


class PromptHeartMonitor(heartmonitor.HeartMonitor):
    """A monitor that pings an engine as soon as it listens, and registers it as it answers."""

    def start(self) -> None:
        """Begin, with pings at connections too."""
        super().start()
        self.ping_stream.socket.setsockopt(zmq.XPUB_VERBOSE, 1)  # not for the first engine alone
        self.ping_stream.on_recv(self._greet)

    def handle_pong(self, msg: Any) -> None:
        """Note an answer, and the engine if it is new."""
        super().handle_pong(msg)
        if new := self.responses - self.hearts:
            self.handle_new_hearts(new)

    def _greet(self, frames: list[bytes]) -> None:
        if frames[0][:1] == b"\x01":  # a subscription
            self.ping_stream.send(str(self.lifetime).encode("ascii"))


class _ReadableSockets:
    """zmq for the monitor's process, with publishers that also receive subscriptions."""

    PUB = zmq.XPUB

    def __getattr__(self, name: str) -> Any:
        return getattr(zmq, name)


heartmonitor.zmq = _ReadableSockets()
heartmonitor.HeartMonitor = PromptHeartMonitor


if __name__ == "__main__":
    from ipyparallel.controller.app import main

    main()
