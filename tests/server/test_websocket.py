"""A page follows a run over its WebSocket: nothing is lost, repeated, or piled up."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import time

import pytest

from workbench.core.run.metrics import STEP_PREFIX
from workbench.core.run.model import RunState
from workbench.errors import StoreError
from workbench.pages.feed import Feed
from workbench.server.subscriber import Subscriber
from workbench.store import schema

UNKNOWN = "260101-000000-aaaa"


@pytest.fixture(autouse=True)
def hurry(set_pace) -> None:
    set_pace(greeting=0.1)


def whole_curve(store, run, name="loss"):
    """Return the iterations and means that a page is to have in the end."""
    feed = Feed(store, run.id)
    while feed.read(time.time()) and feed.behind:
        pass
    curve = feed._record.curves[name].buckets()
    return dict(zip(curve.index.tolist(), curve.mean.astype("float32").tolist(), strict=True))


def drawn(listener, name="loss"):
    return {index: row[5] for index, row in listener.curves[name].items()}


# -- points


async def test_a_page_hears_of_the_run_and_then_its_curves(follow, run) -> None:
    run.report(range(10))

    async with follow(run.id) as listener:
        hello, frame = await listener.hear_a("hello"), await listener.hear_a("frame")

    assert (hello["run"]["id"], hello["run"]["state"]) == (run.id, "running")
    assert (frame.feed, frame.points) == (hello["feed"], 10)
    assert frame.series["loss"]["x"].tolist() == list(range(10))


async def test_a_page_gets_what_is_new(follow, run) -> None:
    run.report(range(10))
    async with follow(run.id) as listener:
        await listener.hear_a("frame")
        listener.ack()

        run.report(range(10, 15))
        frame = await listener.hear_a("frame")

    assert not frame.series["loss"]["reset"]
    assert frame.series["loss"]["x"].tolist() == list(range(10, 15))


async def test_a_page_that_does_not_answer_gets_one_frame_and_still_hears_of_the_run(
    follow, run
) -> None:
    async with follow(run.id) as listener:
        for i in range(8):
            run.report(range(10 * i, 10 * i + 10))
            await asyncio.sleep(0.1)

        while listener.run.get("iteration") != 80:
            await listener.hear()

    assert listener.heard.count("frame") == 1


async def test_a_page_that_answers_late_gets_thinned_data_and_lacks_nothing(
    follow, run, store
) -> None:
    async with follow(run.id) as listener:
        for i in range(20):
            run.report(range(500 * i, 500 * i + 500))
            await asyncio.sleep(0.05)
            if i % 5 == 4:
                await listener.hear_a("frame")
                listener.ack()
        run.end()
        await listener.hear_out()

    assert listener.heard.count("frame") <= 7
    assert drawn(listener) == whole_curve(store, run)


async def test_frames_come_at_most_ten_times_a_second(follow, run) -> None:
    async with follow(run.id) as listener:
        begun = time.monotonic()
        closed = asyncio.ensure_future(listener.hear_out())
        for i in range(60):
            run.report(range(i, i + 1))
            await asyncio.sleep(0.01)
        seconds = time.monotonic() - begun
        run.end()
        await closed

    assert 3 <= listener.heard.count("frame") <= 3 + seconds / 0.08


async def test_a_connection_that_was_cut_continues_without_gap_or_repeat(
    follow, run, store
) -> None:
    run.report(range(1000))
    async with follow(run.id) as before:
        await before.hear_a("frame")
        before.ack()

    run.report(range(1000, 1100))
    async with follow(run.id, feed=before.feed, version=before.version) as after:
        after.curves = before.curves
        frame = await after.hear_a("frame")
        after.ack()
        run.end()
        await after.hear_out()

    assert frame.feed == before.feed
    assert not frame.series["loss"]["reset"]
    assert frame.series["loss"]["x"].tolist() == list(range(1000, 1100))
    assert drawn(after) == whole_curve(store, run)


@pytest.mark.parametrize("claim", [{}, {"feed": "stale", "version": 1}, {"version": 1}])
async def test_a_page_of_another_feed_begins_again(follow, run, claim) -> None:
    run.report(range(10))

    async with follow(run.id, **claim) as listener:
        frame = await listener.hear_a("frame")

    assert frame.series["loss"]["reset"]
    assert len(frame.series["loss"]["x"]) == 10


async def test_a_page_that_claims_a_version_to_come_begins_again(follow, run) -> None:
    run.report(range(10))
    async with follow(run.id) as before:
        await before.hear_a("frame")

    async with follow(run.id, feed=before.feed, version=before.version + 1) as after:
        frame = await after.hear_a("frame")

    assert frame.series["loss"]["reset"]


async def test_a_feed_that_no_one_follows_is_forgotten_after_a_while(follow, run, set_pace) -> None:
    set_pace(keep=0.05)
    run.report(range(10))
    async with follow(run.id) as before:
        await before.hear_a("frame")
    await asyncio.sleep(0.3)

    async with follow(run.id, feed=before.feed, version=before.version) as after:
        frame = await after.hear_a("frame")

    assert after.feed != before.feed
    assert frame.series["loss"]["reset"]


async def test_a_large_run_comes_bit_by_bit_and_whole(follow, run, store) -> None:
    for i in range(10):
        run.report(range(10_000 * i, 10_000 * i + 10_000))
    run.end()

    async with follow(run.id) as listener:
        await listener.hear_out()

    assert drawn(listener) == whole_curve(store, run)


# -- the run's state


async def test_a_page_hears_of_the_run_at_most_four_times_a_second(follow, run) -> None:
    async with follow(run.id) as listener:
        begun = time.monotonic()
        closed = asyncio.ensure_future(listener.hear_out())
        for i in range(40):
            run.report(range(i, i + 1))
            await asyncio.sleep(0.02)
        seconds = time.monotonic() - begun
        run.end()
        await closed

    assert 2 <= listener.heard.count("run") <= 3 + seconds / 0.25
    assert listener.run["is_ended"]


async def test_a_page_hears_of_a_quiet_run_periodically(follow, run, set_pace) -> None:
    set_pace(beat=0.2, refresh=0.1)

    async with follow(run.id) as listener:
        for _ in range(3):
            await listener.hear_a("run", seconds=1)


async def test_a_page_hears_where_the_time_of_a_step_goes(follow, run, set_pace) -> None:
    set_pace(steps=0.1, refresh=0.1)
    compute = STEP_PREFIX.replace("/", "__") + "compute"
    run.report(range(1), ranks=2, **{compute: lambda _: 0.5})

    async with follow(run.id) as listener:
        first = await listener.hear_a("steps")
        run.report(range(1, 2), ranks=2, **{compute: lambda _: 0.25})
        second = await listener.hear_a("steps")

    assert [ranks[:2] for ranks in first["ranks"]] == [[0, 0.5], [1, 1.5]]
    assert [ranks[:2] for ranks in second["ranks"]] == [[0, 0.25], [1, 1.25]]
    assert (len(second["labels"]), len(second["ranks"][0])) == (2, 5)


async def test_an_open_page_gets_the_verdict_that_stays(follow, run, store) -> None:
    compute = STEP_PREFIX.replace("/", "__") + "compute"
    run.report(range(1), ranks=2, **{compute: lambda _: 0.5})
    heard = []

    async with follow(run.id) as listener:
        await listener.hear_a("steps")
        run.report(range(1, 2), ranks=2, **{compute: lambda _: 0.25})
        run.end()
        while not heard or heard[-1]["type"] != "end":
            message = await listener.hear()
            listener.ack()
            heard += [message] if isinstance(message, dict) else []

    steps = [one for one in heard if one["type"] == "steps"][-1]
    (verdict,) = store.reports.conclusion(run.id).says
    assert " so far" not in verdict
    assert steps["says"] == [verdict]
    assert [one for one in heard if one["type"] == "run"][-1]["run"]["verdict"] == [verdict]


async def test_a_run_that_waits_says_for_what(follow, begin) -> None:
    run = begin(state=RunState.QUEUED, started=0.0)

    async with follow(run.id) as listener:
        hello = await listener.hear_a("hello")

    assert (hello["run"]["state"], hello["run"]["line"][-1]) == (
        "queued", "the cluster is about to start",
    )  # fmt: skip


# -- the end


async def test_a_run_that_has_ended_is_sent_and_the_connection_closed(follow, run) -> None:
    run.report(range(10))
    run.end()

    async with follow(run.id) as listener:
        closed = await listener.hear_out()

    assert (listener.heard[-1], closed[0]) == ("end", 1000)
    assert len(listener.curves["loss"]) == 10


async def test_a_page_that_comes_back_follows_a_resumed_run(follow, run, store) -> None:
    run.report(range(10))
    run.end(RunState.STOPPED)
    async with follow(run.id, stay=1) as listener:
        while not listener.heard or listener.heard[-1] != "end":
            await listener.hear()
            listener.ack()
        past = store.run(run.id)
        store.attempts.resume_run(past.fact, "Continues.", past.wish)

        async with follow(run.id) as again:
            hello = await again.hear_a("hello")
            run.end()
            await again.hear_out()

    assert (hello["run"]["state"], again.run["state"]) == ("queued", "finished")


async def test_a_run_without_any_points_ends_as_well(follow, run) -> None:
    run.end(RunState.FAILED, failed_rank=1, error="ValueError: no")

    async with follow(run.id) as listener:
        closed = await listener.hear_out()

    assert listener.heard == ["hello", "end"]
    assert closed[0] == 1000


async def test_the_end_comes_behind_the_last_points(follow, run, store) -> None:
    async with follow(run.id) as listener:
        run.report(range(100))
        await listener.hear_a("frame")
        run.report(range(100, 200))
        run.end()
        listener.ack()
        await listener.hear_out()

    assert listener.heard[-1] == "end"
    assert drawn(listener) == whole_curve(store, run)


async def test_a_page_that_does_not_answer_hears_the_end_at_once_and_gets_the_rest(
    follow, run, store, set_pace
) -> None:
    set_pace(patience=0.5)
    async with follow(run.id) as listener:
        run.report(range(100))
        await listener.hear_a("frame")
        run.report(range(100, 200))
        run.end()
        begun = time.monotonic()
        while not listener.run.get("is_ended"):
            await listener.hear_a("run")
        heard = time.monotonic() - begun
        while await listener.hear():
            pass

    assert heard < 0.4
    assert listener.heard[-2:] == ["frame", "end"]
    assert listener.socket.close_code == 1000
    assert drawn(listener) == whole_curve(store, run)


# -- output


async def test_output_comes_only_to_a_page_that_asks_for_it(follow, run) -> None:
    run.write("hello\n", "world\n", rank=1)

    async with follow(run.id) as silent, follow(run.id) as listener:
        listener.say(type="output", after=0)
        message = await listener.hear_a("output")
        run.end()
        await silent.hear_out()

    assert message == {
        "type": "output", "after": 2, "skipped": 0,
        "pieces": [[1, "stdout", "hello\n"], [1, "stdout", "world\n"]],
    }  # fmt: skip
    assert "output" not in silent.heard


async def test_a_page_waits_for_output_that_is_yet_to_come(follow, run) -> None:
    async with follow(run.id) as listener:
        listener.say(type="output", after=0)
        await asyncio.sleep(0.3)
        run.write("now\n")

        message = await listener.hear_a("output")

    assert message["pieces"] == [[0, "stdout", "now\n"]]


async def test_a_page_gets_output_message_by_message_and_all_of_it_before_the_end(
    follow, run
) -> None:
    texts = [f"{i:04} {'x' * 500}\n" for i in range(200)]
    run.write(*texts)
    run.end()

    async with follow(run.id) as listener:
        listener.say(type="output", after=0)
        await listener.hear_out()

    assert [text for _, _, text in listener.output] == texts
    assert listener.heard.count("output") >= 2
    assert listener.heard[-1] == "end"


async def test_a_page_that_does_not_ask_again_gets_no_more_output(follow, run) -> None:
    run.write("one\n")
    async with follow(run.id) as listener:
        listener.say(type="output", after=0)
        await listener.hear_a("output")
        run.write("two\n")
        await asyncio.sleep(0.3)

        listener.say(type="output", after=None)
        run.end()
        await listener.hear_out()

    assert listener.heard.count("output") == 1


async def test_output_that_is_far_behind_is_skipped_and_counted(follow, run) -> None:
    run.write(*("x" * 10_000 for _ in range(60)))
    run.end()

    async with follow(run.id) as listener:
        listener.say(type="output", after=0)
        message = await listener.hear_a("output")
        size = len(json.dumps(message))
        listener.output += message["pieces"]
        listener.say(type="output", after=message["after"])
        await listener.hear_out()

    assert 30 <= message["skipped"] <= 36
    assert size <= 70_000
    assert message["skipped"] + len(listener.output) == 60


# -- what is wrong


@pytest.mark.parametrize("identity", [UNKNOWN, "digits", "x" * 500])
async def test_a_run_that_is_not_there_is_reported(follow, identity) -> None:
    async with follow(identity) as listener:
        code, reason = await listener.hear_out()

    assert (code, listener.heard) == (4404, [])
    assert reason.startswith("No run ")
    assert len(reason.encode()) <= 120


async def test_an_invalid_version_is_refused(follow, run) -> None:
    async with follow(run.id, version="new") as listener:
        code, reason = await listener.hear_out()

    assert (code, reason) == (
        1008, "What was sent is refused: its version is 'new'; expected an integer. "
        "Known fields: 'feed', 'version', 'stay'.",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("message", "code", "reason"),
    [
        ("{", 1008, "it is '{'; expected JSON"),
        ("[]", 1008, "it is []"),
        ('{"type": "stop"}', 1008, "its type is 'stop'"),
        ('{"type": "ack"}', 1008, "it lacks 'version'"),
        ('{"type": "ack", "version": -1}', 1008, "its version is -1"),
        ('{"type": "ack", "version": "1"}', 1008, "its version is '1'"),
        ('{"type": "output", "after": 1e300}', 1008, "its after is 1e+300"),
        ('{"type": "ack", "version": 1, "and": 2}', 1008, "it has an unknown field 'and'"),
        (b"\x00", 1008, "A binary message of 1 bytes was received; send JSON as text."),
        ("x" * 1001, 1009, "message too big"),
    ],
)
async def test_an_invalid_message_closes_the_connection(follow, run, message, code, reason) -> None:
    async with follow(run.id) as listener:
        await listener.socket.write_message(message, binary=isinstance(message, bytes))
        closed = await listener.hear_out()

    assert closed[0] == code
    assert reason in closed[1]


async def test_answers_that_fit_no_question_are_ignored(follow, run) -> None:
    async with follow(run.id) as listener:
        for version in (0, 5, 2**53 - 1):
            listener.say(type="ack", version=version)
        run.report(range(10))
        await listener.hear_a("frame")


async def test_a_store_that_a_newer_workbench_wrote_is_reported(follow, run, store) -> None:
    with sqlite3.connect(store.path) as connection:
        connection.execute(f"PRAGMA user_version = {schema.VERSION + 1}")
    connection.close()

    async with follow(run.id) as listener:
        code, reason = await listener.hear_out()

    assert code == 4503
    assert reason.startswith("The store ")


async def test_a_store_that_fails_meanwhile_is_reported_and_a_page_may_come_back(
    follow, run, monkeypatch
) -> None:
    def fail(self, now, **options):
        raise StoreError("The store cannot be read (disk I/O error).")

    async with follow(run.id) as listener:
        await listener.hear_a("hello")
        with monkeypatch.context() as broken:
            broken.setattr(Feed, "read", fail)
            run.report(range(10))
            closed = await listener.hear_out()

    async with follow(run.id) as again:
        await again.hear_a("frame")

    assert closed == (4503, "The store cannot be read (disk I/O error).")


async def test_a_mistake_of_ours_is_logged_and_the_page_reported(
    follow, run, monkeypatch, caplog
) -> None:
    def fail(self, now, **options):
        raise ZeroDivisionError("oops")

    monkeypatch.setattr(Feed, "read", fail)

    async with follow(run.id) as listener:
        closed = await listener.hear_out()

    assert closed == (1011, "The server failed; see its log.")
    assert "oops" in caplog.text


async def test_a_mistake_in_sending_is_logged_and_the_page_reported(
    follow, run, monkeypatch, caplog
) -> None:
    def fail(self, *_):
        raise ZeroDivisionError("oops")

    async with follow(run.id) as listener:
        await listener.hear_a("hello")
        monkeypatch.setattr(Subscriber, "send", fail)
        run.report(range(10))
        closed = await listener.hear_out()

    assert closed == (1011, "The server failed; see its log.")
    assert "oops" in caplog.text


async def test_a_run_that_no_one_knew_is_followed_once_it_is_there(follow, begin) -> None:
    async with follow(UNKNOWN) as listener:
        await listener.hear_out()

    run = begin()
    async with follow(run.id) as again:
        await again.hear_a("hello")


class TestBehindAHub:
    @pytest.fixture
    def jp_base_url(self) -> str:
        return "/user/someone@example.com/lab-1/"

    async def test_a_page_follows_and_asks(self, follow, ask, run) -> None:
        run.report(range(10))

        async with follow(run.id) as listener:
            await listener.hear_a("frame")
        answer = await ask("GET", "runs", run.id)

        assert answer.status == 200
