"""Batches of what a rank reports, values and events, in order."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from msgspec.structs import replace

from workbench.core.run.rank_protocol import Batch, Event, EventReport, Sample


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


def event_batch(run: str, event: Event, *, time: float = 1.0, sequence: int = 1) -> Batch:
    """Return a batch with one event of rank 0."""
    return Batch(run, 0, sequence, events=(EventReport(event, time),))
