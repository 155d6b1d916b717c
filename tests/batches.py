"""Batches of what a rank reports, values and events, in order."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from msgspec.structs import replace

from workbench.core.run.rank_protocol import Batch, Event, EventReport, Sample
from workbench.store import Store


def batch_of(
    run: str, rank: int, sequence: int, news: Iterable[Sample | EventReport], **more: Any
) -> Batch:
    """Return a batch with these values and events."""
    samples, events = list[Sample](), list[EventReport]()
    for one in news:
        if isinstance(one, Sample):
            samples.append(one)
        else:
            events.append(replace(one, after=len(samples)))
    return Batch(run, rank, sequence, samples, events=tuple(events), **more)


def report_news(
    store: Store, execution: str, sequence: int, *news: tuple[str | type, int, float]
) -> None:
    """Let rank 0 report values by name, and events, at iterations and times."""
    made = [
        Sample(name, at, time, 1.0) if isinstance(name, str) else EventReport(name(at), time)
        for name, at, time in news
    ]
    store.reports.add_batches([batch_of(execution, 0, sequence, made)])


def event_batch(run: str, event: Event, *, time: float = 1.0, sequence: int = 1) -> Batch:
    """Return a batch with one event of rank 0."""
    return Batch(run, 0, sequence, events=(EventReport(event, time),))
