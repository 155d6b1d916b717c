"""A reader reads the run's state less often than its points, but misses none of it."""

from __future__ import annotations

import time

from workbench.core.run.model import RunState
from workbench.server import run_reader
from workbench.server.run_reader import FeedRequests, RunReader, RunUpdate
from workbench.store import Store


def test_a_state_that_was_written_right_after_another_is_read(run) -> None:
    reading = RunReader(run.id, refresh=3600.0)
    found: list[RunUpdate] = []
    try:
        with Store() as store:
            for iteration in range(1, 6):  # the last one is followed by no write
                store.put_run_fact(run.id, state=RunState.RUNNING, iteration=iteration)
                found.append(reading.wait())
        while found[-1].run.iteration != 5:
            found.append(reading.wait())
        run.end()
        while not found[-1].ended:
            found.append(reading.wait())
    finally:
        reading.close()
    seen = [update.run.iteration for update in found]
    assert seen == sorted(seen)


def test_nothing_is_read_while_the_last_news_are_not_taken(run, monkeypatch) -> None:
    monkeypatch.setattr(run_reader, "SLOW_SECONDS", 0.05)
    reading = RunReader(run.id, refresh=0.0)
    found: list[RunUpdate] = []

    def deliver(update: RunUpdate) -> None:
        found.append(update)
        if len(found) > 1:
            reading.ask(FeedRequests(wanted=False))

    try:
        reading.follow(deliver)  # returns, since nothing else would end it
        before = len(found)
        reading.take()
        reading.follow(deliver)
    finally:
        reading.close()

    assert (before, len(found)) == (1, 2)


def test_nothing_is_read_for_no_page(run) -> None:
    reading = RunReader(run.id)
    found: list[RunUpdate] = []
    try:
        reading.ask(FeedRequests(wanted=False))
        reading.follow(found.append)
    finally:
        reading.close()

    assert not found


def test_progress_alone_waits_for_the_next_message_and_a_change_of_state_does_not(
    run, monkeypatch
) -> None:
    monkeypatch.setattr(run_reader, "STATE_SECONDS", 0.0)
    monkeypatch.setattr(run_reader, "PROGRESS_SECONDS", 3600.0)
    facts = ({"iteration": 1}, {"iteration": 2}, {"hindrance": "A checkpoint is written."})
    reading = RunReader(run.id, refresh=3.0)
    found: list[int] = []
    try:
        with Store() as store:
            store.put_run_fact(run.id, state=RunState.RUNNING)
            for fact in facts:
                store.put_run_fact(run.id, **fact)
                found.append(reading.wait().run.iteration)
    finally:
        reading.close()

    assert found == [1, 1, 2]


def test_the_last_progress_is_sent_though_nothing_follows(run, monkeypatch) -> None:
    monkeypatch.setattr(run_reader, "STATE_SECONDS", 0.0)
    monkeypatch.setattr(run_reader, "PROGRESS_SECONDS", 0.3)
    reading = RunReader(run.id, refresh=3.0)
    found: list[int] = []
    begun = time.monotonic()
    try:
        with Store() as store:
            for iteration in (1, 2):
                store.put_run_fact(run.id, state=RunState.RUNNING, iteration=iteration)
                found.append(reading.wait().run.iteration)
        found.append(reading.wait().run.iteration)
    finally:
        reading.close()

    assert found == [1, 1, 2]
    assert time.monotonic() - begun < 2.0  # long before the next refresh
