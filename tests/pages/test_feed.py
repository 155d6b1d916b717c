"""A feed gives each page what has changed since it last looked."""

from __future__ import annotations

import pytest

from tests.batches import event_batch
from tests.pages.test_frames import read
from workbench.analysis.step_breakdown import read_breakdown
from workbench.core.run.metrics import MOST_DRAWN
from workbench.core.run.model import RunState
from workbench.core.run.rank_protocol import Batch, Sample, TrainingResumed
from workbench.errors import Unknown
from workbench.pages.feed import Feed
from workbench.pages.protocol import OutputMessage, StepsMessage
from workbench.view.pictures.step_bars import label


@pytest.fixture
def run(queue):
    return queue("digits")


def read_all(feed: Feed, now: float = 1.0) -> None:
    feed.read(now)
    while feed.behind:
        feed.read(now)


def test_an_unknown_run_is_refused(store) -> None:
    with pytest.raises(Unknown, match="No run is called '261121-000000-aaaa'"):
        Feed(store, "261121-000000-aaaa")


def test_nothing_is_sent_before_there_is_a_point(store, run) -> None:
    feed = Feed(store, run.id)

    read_all(feed)

    assert feed.frame(0) is None


def test_a_page_gets_what_changed_since_it_last_looked(store, run, report) -> None:
    feed = Feed(store, run.id)
    report(run, 0, loss=[3.0, 2.0])
    read_all(feed)
    seen = feed.version

    report(run, 1, loss=[4.0, 3.0])
    read_all(feed)

    header, (columns,) = read(feed.frame(seen))
    assert header["series"][0]["reset"] is False
    assert columns["median"].tolist() == [3.5, 2.5]
    assert feed.frame(feed.version) is None


def test_a_page_gets_what_one_rank_alone_has_reported_a_little_later(store, run, report) -> None:
    feed = Feed(store, run.id)
    report(run, 0, loss=[3.0])
    report(run, 1, loss=[4.0, 2.0])
    read_all(feed, now=10.0)
    seen = feed.version
    assert read(feed.frame(0))[1][0]["median"].tolist() == [3.5]

    assert not feed.read(now=10.5)
    assert feed.read(now=11.0)

    assert read(feed.frame(seen))[1][0]["median"].tolist() == [2.0]


def test_at_the_end_a_page_gets_everything_at_once(store, run, report) -> None:
    feed = Feed(store, run.id)
    report(run, 0, loss=[3.0])
    report(run, 1, loss=[4.0, 2.0])
    store.put_run_fact(run.id, state=RunState.FINISHED, ended=10.0)

    read_all(feed, now=10.0)

    assert feed.ended
    assert read(feed.frame(0))[1][0]["median"].tolist() == [3.5, 2.0]


def test_clocks_and_step_times_make_no_curves(store, run, report) -> None:
    feed = Feed(store, run.id)

    report(run, 0, loss=[3.0], epoch=[1.0], elapsed_time=[2.0], step__compute=[0.1])
    read_all(feed)

    header, _ = read(feed.frame(0))
    assert [one["name"] for one in header["series"]] == ["loss"]


def test_when_another_rank_is_the_slowest_its_own_curve_is_sent_whole(store, run, report) -> None:
    feed = Feed(store, run.id)
    report(run, 0, loss=[3.0, 2.0], step__compute=[0.1])
    report(run, 1, loss=[5.0, 4.0], step__compute=[0.1])
    read_all(feed, now=1.0)
    seen = feed.version

    report(run, 1, step__compute=[0.2])
    read_all(feed, now=3.0)

    header, (columns,) = read(feed.frame(seen))
    assert (header["slowest"], header["series"][0]["reset"]) == (1, True)
    assert columns["slowest"].tolist() == [5.0, 4.0]
    assert feed.frame(header["version"]) is None


def test_step_times_come_by_rank(store, run, report) -> None:
    feed = Feed(store, run.id)
    report(run, 1, step__compute=[0.3], step__communication=[0.1], step__data=[0.0])
    report(run, 0, step__compute=[0.1], step__communication=[0.3], step__other=[0.05])

    read_all(feed)

    message, anatomy = feed.steps_message(), read_breakdown(store, store.run(run.id))
    assert message.says[0].startswith("Straggler so far: rank 1 computes for 300 ms")
    assert message == StepsMessage(
        slowest=1,
        parts=("compute", "communication", "data", "other"),
        ranks=((0, 0.1, 0.3, 0.0, 0.05), (1, 0.3, 0.1, 0.0, 0.0)),
        says=message.says,
        title="Time of a step in ms",
        labels=tuple(label(anatomy, rank) for rank in (0, 1)),
        marked=1,
        longest=pytest.approx(0.45),
    )


def test_a_range_is_given_in_finer_buckets(store, run, report) -> None:
    feed = Feed(store, run.id, capacity=10)
    report(run, 0, loss=[float(i) for i in range(1, 1001)], epoch=[1.0] * 500)

    header, (columns,) = read(feed.detail(401, 500, 200))

    assert header["series"][0]["width"] == 1
    assert columns["mean"].tolist() == [float(i) for i in range(401, 501)]


def test_output_comes_in_pieces_that_are_not_too_long(store, run, report) -> None:
    feed = Feed(store, run.id)
    for rank in range(3):
        report(run, rank, "x" * 100)

    first = feed.output(0, most=200)
    rest = feed.output(first.after, most=200)

    assert [piece[0] for piece in first.pieces] == [0, 1]
    assert rest == OutputMessage(after=3, skipped=0, pieces=((2, "stdout", "x" * 100),))
    assert feed.output(3).pieces == ()


def test_output_that_no_one_would_read_is_skipped_and_counted(store, run, report) -> None:
    feed = Feed(store, run.id)
    for _ in range(20):
        report(run, 0, "x" * 30_000)

    message = feed.output(1)

    assert (message.skipped, message.after) == (11, 14)
    assert len(message.pieces) == 2


def test_a_page_gets_the_end_of_what_was_printed_in_one_piece(store, run, report) -> None:
    report(run, 0, "x" * 2_000_000 + "\nend\n")

    after, text = 0, ""
    while pieces := (message := Feed(store, run.id).output(after)).pieces:
        after = message.after
        text += "".join(piece[2] for piece in pieces)

    assert text.endswith("x\nend\n")
    assert 200_000 < len(text) < 300_000


def test_of_very_many_names_a_page_gets_the_first(store, run, report) -> None:
    report(run, 0, **{f"name_{number}": [1.0] for number in range(300)})
    feed = Feed(store, run.id)
    read_all(feed)

    _, columns = read(feed.frame(0))

    assert len(columns) == MOST_DRAWN
    assert len(feed.run_message(1.0).values) == MOST_DRAWN


def test_a_feed_has_ended_when_all_was_read_that_was_written_before_the_end(
    store, supervisor, run, report
) -> None:
    feed = Feed(store, run.id)
    report(run, 0, loss=[1.0] * 50_000)

    supervisor.put_run_fact(run.id, state=RunState.FINISHED, ended=2.0)
    feed.read(3.0)
    assert (feed.behind, feed.ended) == (True, False)
    read_all(feed)

    assert feed.ended
    assert feed.run_message(3.0).is_ended is True


def test_a_page_drops_what_a_resumed_run_does_again(store, supervisor, run) -> None:
    supervisor.put_run_fact(run.id, ranks=1)
    samples = tuple(Sample("loss", n, 0.0, 1.0) for n in (1, 2, 3))
    supervisor.reports.add_batches([Batch(run.id, 0, 1, samples)])
    feed = Feed(store, run.id)
    read_all(feed)
    seen, identity = feed.version, feed.identity

    supervisor.attempts.continue_run(supervisor.run(run.id).fact, "")
    supervisor.put_run_fact(run.id, resumed_at=1, resumed=5.0)
    execution = supervisor.run(run.id).execution
    supervisor.reports.add_batches([event_batch(execution, TrainingResumed(1), time=0.0)])
    read_all(feed, 2.0)

    header, (columns, redone) = read(feed.frame(seen))
    assert header["feed"] == feed.identity != identity
    assert len(columns["median"]) == 1
    assert [one["attempt"] for one in header["series"]] == [0, 1]
    assert redone["x"].tolist() == [2, 3]
    (said,) = feed.run_message(2.0).redone
    assert (said.attempt, said.text) == (1, "attempt 1, redone")
    supervisor.reports.add_batches([Batch(execution, 0, 2, (Sample("loss", 2, 6.0, 1.0),))])
    last = feed.version
    read_all(feed, 3.0)
    assert len(read(feed.frame(last))[1]) == 1
