"""However many pages look at a run: it is read once, its kernel knows of them, nothing is left."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
import weakref
from collections.abc import Callable
from contextlib import AsyncExitStack

import pytest

from workbench.core.cluster.model import ClusterFact, ClusterState
from workbench.errors import ClusterError
from workbench.pages.feed import Feed
from workbench.requests import supervisor
from workbench.server import run_feed, run_reader
from workbench.server.run_feed import Chores
from workbench.store import Store


@pytest.fixture(autouse=True)
def hurry(set_pace) -> None:
    set_pace(greeting=0.1)


@pytest.fixture
def readings(monkeypatch: pytest.MonkeyPatch) -> list[Feed]:
    """The feeds that have read, one entry for each time."""
    found: list[Feed] = []
    read = Feed.read

    def counted(self: Feed, now: float, **options: bool) -> bool:
        found.append(self)
        return read(self, now, **options)

    monkeypatch.setattr(Feed, "read", counted)
    return found


async def until(condition, seconds: float = 5.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.01)


@pytest.fixture(autouse=True)
def ours() -> Callable[[], list[str]]:
    """Give what tells which threads of ours are alive that were not there before the test."""
    before = {*threading.enumerate()}

    def names() -> list[str]:
        new = {*threading.enumerate()} - before
        return [thread.name for thread in new if thread.name.startswith("workbench")]

    return names


# -- one reader


async def test_ten_pages_cost_one_reader(follow, run, readings) -> None:
    async with AsyncExitStack() as stack:
        pages = [await stack.enter_async_context(follow(run.id)) for _ in range(10)]
        closed = [asyncio.ensure_future(subscriber.hear_out()) for subscriber in pages]
        begun = time.monotonic()
        for i in range(30):
            run.report(range(i, i + 1))
            await asyncio.sleep(0.02)
        run.end()
        await asyncio.gather(*closed)
        seconds = time.monotonic() - begun

    assert len(set(readings)) == 1
    assert len(readings) <= 20 + 4 * seconds / run_reader.LOOK_SECONDS
    assert {len(subscriber.curves["loss"]) for subscriber in pages} == {30}


async def test_ten_pages_get_the_same_bytes(follow, run, monkeypatch) -> None:
    asked = []
    frame = Feed.frame
    monkeypatch.setattr(
        Feed, "frame", lambda self, since: asked.append(since) or frame(self, since)
    )

    async with AsyncExitStack() as stack:
        pages = [await stack.enter_async_context(follow(run.id)) for _ in range(10)]
        for listener in pages:
            await listener.hear_a("hello")
        run.report(range(10))
        for listener in pages:
            await listener.hear_a("frame")

    assert asked == [0]


async def test_a_store_in_which_nothing_happens_is_hardly_read(follow, run, readings) -> None:
    async with follow(run.id) as listener:
        await listener.hear_a("hello")
        await asyncio.sleep(0.6)

    assert len(readings) <= 3


async def test_a_run_is_looked_at_less_often_while_no_page_answers(
    follow, run, readings, set_pace
) -> None:
    set_pace(patience=0.0)
    run.report(range(10))

    async with follow(run.id) as listener:
        await listener.hear_a("frame")
        before = len(readings)
        for i in range(8):
            run.report(range(10 + i, 11 + i))
            await asyncio.sleep(0.1)
        slow = len(readings) - before
        listener.ack()
        begun = time.monotonic()
        await listener.hear_a("frame")
        woken = time.monotonic() - begun

    assert slow <= 4
    assert woken < 0.3


async def test_two_runs_are_followed_side_by_side(follow, begin) -> None:
    runs = [begin(), begin()]
    for run in runs:
        run.report(range(10))

    async with follow(runs[0].id) as one, follow(runs[1].id) as two:
        await one.hear_a("frame")
        await two.hear_a("frame")

    assert [one.run["id"], two.run["id"]] == [run.id for run in runs]
    assert one.feed != two.feed


# -- open pages


async def test_a_kernel_knows_at_once_how_many_pages_there_are(follow, run, store) -> None:
    def pages() -> int | None:
        return store.open_pages(run.id, time.time())

    assert pages() is None
    async with follow(run.id):
        await until(lambda: pages() == 1, 1)
        async with follow(run.id):
            await until(lambda: pages() == 2, 1)
        await until(lambda: pages() == 1, 1)
    await until(lambda: pages() == 0, 1)


async def test_a_kernel_counts_on_pages_that_stay_after_the_end(
    follow, run, store, set_pace
) -> None:
    set_pace(pages=0.0, chores=0.05, keep=0.1)

    def pages(later: float = 0.0) -> int | None:
        return store.open_pages(run.id, time.time() + later)

    async with follow(run.id, stay=1) as one, follow(run.id, stay=1) as two:
        run.end()
        await one.hear_a("end")
        await two.hear_a("end")
        begun = time.time()
        await asyncio.sleep(0.5)
        assert pages(15.0 - 0.4) == 2  # it was repeated of late
        two.socket.close()
        await until(lambda: pages() == 1)
    await until(lambda: pages() == 0)
    assert time.time() - begun < 5


async def test_a_kernel_does_not_count_on_pages_that_go_at_the_end(follow, run, store) -> None:
    run.end()

    async with follow(run.id) as listener:
        await listener.hear_out()
        await until(lambda: store.open_pages(run.id, time.time()) == 0, 1)


async def test_a_page_that_stays_is_sent_away_when_no_kernel_waits_any_longer(
    follow, run, extension, set_pace
) -> None:
    set_pace(stay=0.2, keep=0.1)
    run.end()

    async with follow(run.id, stay=1) as listener:
        assert (await listener.hear_out())[0] == 1000
    await until(lambda: not extension.feeds._followings)


async def test_the_number_of_pages_is_repeated_while_there_are_pages(
    follow, run, set_pace, monkeypatch
) -> None:
    set_pace(pages=0.0, chores=0.1)
    written = []
    monkeypatch.setattr(
        Store, "put_open_pages", lambda self, run, server, pages, now: written.append(pages)
    )

    async with follow(run.id):
        await until(lambda: len(written) >= 4)
    await until(lambda: written[-1] == 0)
    quiet = len(written)
    await asyncio.sleep(0.3)

    assert len(written) == quiet


async def test_a_run_that_is_not_there_has_no_open_pages(follow, store) -> None:
    async with follow("260101-000000-aaaa") as listener:
        await listener.hear_out()

    assert store.open_pages("260101-000000-aaaa", time.time()) is None


async def test_a_store_that_cannot_be_written_does_not_keep_a_page_from_following(
    follow, run, store, set_pace, caplog
) -> None:
    set_pace(chores=0.1, lock=0.05)
    run.report(range(10))
    with store.transaction():
        async with follow(run.id) as listener:
            await listener.hear_a("frame")
            await until(lambda: "was busy" in caplog.text)
            await asyncio.sleep(0.5)

            assert caplog.text.count("was busy") == 1


# -- care


@pytest.fixture
def asleep(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """No supervisor is awake; gives the clusters whose supervisors are woken."""
    woken: list[str] = []
    monkeypatch.setattr(supervisor, "supervisor_is_awake", lambda name: False)
    monkeypatch.setattr(supervisor, "wake_supervisor", woken.append)
    return woken


async def test_a_supervisor_that_died_is_woken_while_a_page_follows(
    follow, run, asleep, set_pace
) -> None:
    set_pace(waking=0.1, chores=0.1)

    async with follow(run.id):
        await until(lambda: asleep == ["default"] * 2)


@pytest.fixture
def caring(cluster) -> Chores:
    """Chores; the first was done."""
    caring = Chores("260101-000000-aaaa", "server")
    caring.look_after(cluster, now=100.0)
    return caring


def test_a_supervisor_that_ends_again_and_again_is_given_up(caring, cluster, asleep) -> None:
    for i in range(1, supervisor.MOST_WAKINGS + 1):
        caring.look_after(cluster, now=100.0 + 10 * i)

    with pytest.raises(ClusterError, match="ends as soon as it starts"):
        caring.look_after(cluster, now=200.0)
    assert len(asleep) == supervisor.MOST_WAKINGS


def test_a_cluster_that_failed_is_not_tried_again_unasked(
    caring, cluster, store, asleep, monkeypatch
) -> None:
    monkeypatch.setattr(run_feed, "supervisor_is_awake", lambda name: False)
    store.put_cluster_fact(ClusterFact(cluster, ClusterState.FAILED))

    caring.look_after(cluster, now=200.0)

    assert asleep == []


async def test_no_one_is_woken_for_a_run_that_has_ended(follow, run, asleep, set_pace) -> None:
    set_pace(waking=0.0, chores=0.02)
    run.end()

    async with follow(run.id) as listener:
        await listener.hear_out()

    assert asleep == []


async def test_no_one_is_woken_when_no_one_looks(follow, run, asleep, set_pace) -> None:
    set_pace(waking=0.3, chores=0.02)

    async with follow(run.id) as listener:
        await listener.hear_a("hello")
    await asyncio.sleep(0.5)

    assert asleep == []


# -- the server's end


async def test_the_server_says_goodbye_and_leaves_nothing(
    follow, run, store, extension, ours
) -> None:
    run.report(range(10))
    async with follow(run.id) as one, follow(run.id) as two:
        await one.hear_a("frame")
        await two.hear_a("hello")
        assert ours()

        await extension.stop_extension()
        closed = [await one.hear_out(), await two.hear_out()]

    assert closed == [(1001, "The server is stopping.")] * 2
    assert store.open_pages(run.id, time.time()) == 0
    assert ours() == []
    assert [task for task in asyncio.all_tasks() if "follow" in repr(task.get_coro())] == []


async def test_a_page_that_comes_while_the_server_stops_is_sent_away(
    follow, run, extension
) -> None:
    await extension.stop_extension()

    async with follow(run.id) as listener:
        closed = await listener.hear_out()

    assert closed == (1001, "The server is stopping.")


async def test_a_feed_that_was_kept_for_a_page_to_come_back_ends_with_the_server(
    follow, run, extension, monkeypatch, ours
) -> None:
    async with follow(run.id) as listener:
        await listener.hear_a("hello")
    await asyncio.sleep(0.1)
    begun = time.monotonic()

    await extension.stop_extension()

    assert time.monotonic() - begun < 1
    assert ours() == []


async def test_a_run_that_is_followed_no_longer_leaves_nothing(
    follow, run, set_pace, monkeypatch, extension
) -> None:
    set_pace(keep=0.05)
    closed = []
    close = Store.close
    monkeypatch.setattr(Store, "close", lambda self: closed.append(self) or close(self))

    async with follow(run.id) as listener:
        await listener.hear_a("hello")
        (followed,) = map(weakref.ref, extension.feeds._followings.values())
    await until(lambda: not extension.feeds._followings)
    gc.collect()

    assert followed() is None
    assert closed
    assert not [store for store in closed if store._open]
