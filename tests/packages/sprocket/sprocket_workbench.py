"""Sprocket, as workbench asks for it."""

from __future__ import annotations

import functools
import sys
from collections.abc import Sequence
from typing import Any, ClassVar

from workbench.engine.elastic.loop import elastic
from workbench.engine.framework import Framework
from workbench.engine.run_context import current
from workbench.engine.snapshot.entries import ARRAYS, LoopData, StateEntry, own_of
from workbench.engine.training_loop import Pass, now
from workbench.engine.watched_loop import LoopWatch, WatchedLoop

PASS = "_workbench_pass"


class SprocketFramework(Framework):
    """A framework whose trainer owns its loop."""

    hooks: ClassVar = {"sprocket": "sprocket_workbench:wrap"}
    packages = ("sprocket",)
    distributions = ("sprocket",)
    data = "a Feed"

    def state_entry(self, name: str, value: Any) -> type[StateEntry] | None:
        """Return how a line is saved; a trainer or a feed says its place itself."""
        sprocket = sys.modules.get("sprocket")
        if sprocket is None:
            return None
        if isinstance(value, sprocket.Line):
            return LineEntry
        return PlaceEntry if isinstance(value, sprocket.Trainer) else None

    def loop_data(self, data: Any) -> LoopData | None:
        """Return what gives a loop the batches of a feed."""
        sprocket = sys.modules.get("sprocket")
        return FeedData(data) if sprocket is not None and isinstance(data, sprocket.Feed) else None


class LineEntry(StateEntry):
    """A line, equal on all ranks."""

    kind = "a line"
    file = ARRAYS

    def sample(self) -> list[float]:
        return [*self.value.numbers]

    def common(self, spare: Any) -> Any:
        return {"numbers": self.value.numbers.copy()}

    def restore(self, common: Any, owns: Sequence[Any], rank: int, ranks: int) -> str:
        self.value.numbers[:] = common["numbers"]
        return ""


class PlaceEntry(StateEntry):
    """A trainer's steps, and its feed's place."""

    kind = "a trainer's place"

    def own(self) -> Any:
        return self.value.done, self.value.feed.given

    def restore(self, common: Any, owns: Sequence[Any], rank: int, ranks: int) -> str:
        self.value.done, self.value.feed.given = own_of(owns, rank)
        return ""


class FeedData(LoopData):
    """A feed that gives an elastic loop its batches."""

    kind = "a feed"

    @property
    def epoch(self) -> float:
        return self.value.given / self.value.length

    @property
    def epochs_before(self) -> int:
        return (self.value.given - 1) // self.value.length

    @property
    def ends_epoch(self) -> bool:
        return self.value.given % self.value.length == 0

    def give(self) -> tuple[Any, float]:
        return next(self.value), 1.0

    def own(self) -> Any:
        return self.value.given

    def restore(self, common: Any, owns: Sequence[Any], rank: int, ranks: int) -> str:
        self.value.given = own_of(owns, rank)
        return ""


def wrap(sprocket: Any) -> None:
    """Watch the trainer's steps, and save it between them."""
    loops = LoopWatch(lambda run: WatchedLoop(run, list))
    kind = sprocket.Trainer
    step, fit = kind.step, kind.fit
    get = sprocket.Feed.__next__

    @functools.wraps(get)
    def watched_get(feed: Any) -> Any:
        if (here := loops.present()) is None:
            return get(feed)
        asked = now()
        batch = get(feed)
        given = vars(feed).setdefault(PASS, Pass(id(feed), lambda: 1, feed.size, repeats=True))
        given.position = feed.given / feed.length
        here.do(here.loop.fetched, given, asked)
        return batch

    @functools.wraps(step)
    def watched_step(trainer: Any) -> float:
        loss: float = step(trainer)
        if (here := loops.present()) is not None:
            here.do(here.loop.backward)
            here.do(here.loop.add_loss, loss)
            here.ended_step(trainer, lambda _: "", lambda one: one.rate)
        return loss

    @functools.wraps(fit)
    def saved_fit(trainer: Any, steps: int) -> None:
        if (run := current()) is None or run.in_loop:
            fit(trainer, steps)
            return
        loop = elastic({"line": trainer.line, "place": trainer}, steps=steps)
        loop.restore()

        def committed() -> float:
            loss: float = kind.step(trainer)
            loop.commit()
            return loss

        trainer.step = committed
        try:
            fit(trainer, steps)
        finally:
            del trainer.step
        loop.finish()

    kind.step, kind.fit, sprocket.Feed.__next__ = watched_step, saved_fit, watched_get
