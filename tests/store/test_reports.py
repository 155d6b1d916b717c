"""Each batch is stored exactly once and in order, and readers follow by sequence number."""

from __future__ import annotations

import itertools
import math
from collections import defaultdict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.weekly import WEEKLY
from workbench.core.run.metrics import Conclusion
from workbench.core.run.model import RunKind, RunState, RunWish
from workbench.core.run.rank_protocol import MOST_NAMES, Batch, Chunk, Ending, Sample
from workbench.errors import StateError
from workbench.store import OutputRow, PointRow, Store
from workbench.store.reports import AT_ONCE_CHARACTERS, PIECE_CHARACTERS

PROFILE = settings(derandomize=True, deadline=None, max_examples=60)
NUMBERS = itertools.count()


def batch(run: str, rank: int, sequence: int, *, size: int = 1) -> Batch:
    """A batch whose points tell rank and batch, so that any mix-up shows."""
    samples = tuple(Sample("loss", sequence, n, rank * 1000.0 + sequence) for n in range(size))
    return Batch(run, rank, sequence, samples, (Chunk("stdout", 0.5, f"{rank}:{sequence}\n"),))


def fresh_wish() -> RunWish:
    id_ = f"run-{next(NUMBERS)}"
    return RunWish(id_, id_, RunKind.CELL, "")


def values(store: Store, run: str, rank: int) -> list[float]:
    return [point.value for point in store.reports.points(run) if point.rank == rank]


def test_points_and_output_come_back_in_order(store, run) -> None:
    store.reports.add_batches([batch(run, 1, 1, size=2)])

    assert store.reports.points(run) == [
        PointRow(1, 1, 1, 0.0, "loss", 1001.0),
        PointRow(2, 1, 1, 1.0, "loss", 1001.0),
    ]
    assert store.reports.output(run) == [OutputRow(1, 1, "stdout", 0.5, "1:1\n")]


def test_the_last_range_is_that_of_the_ranks_that_came_as_far(store, run) -> None:
    for rank, (last, value) in enumerate([(9, 0.4), (9, 0.6), (8, 99.0), (9, math.nan)]):
        samples = [Sample("loss", 1, 0.0, 50.0 + rank), Sample("loss", last, 1.0, value)]
        store.reports.add_batches([Batch(run, rank, 1, samples)])
    store.reports.add_batches([Batch(run, 0, 2, [Sample("alone", 9, 1.0, 1.0)])])

    assert store.reports.final_ranges(run) == {"loss": (0.4, 0.6)}


def test_the_clock_of_a_run_increases_and_is_of_one_rank(store, run) -> None:
    for rank in range(2):
        samples = [Sample("loss", n, 1000.0 * rank + 2.0 * n, 1.0) for n in range(1, 101)]
        store.reports.add_batches([Batch(run, rank, 1, samples)])
    store.reports.add_batches(
        [Batch(run, 0, 2, [Sample("loss", 50, 300.0, 1.0)])]
    )  # a second training

    found = store.reports.clock(run, "loss", 20)

    assert 5 <= len(found) <= 20
    assert all(time == 2.0 * iteration for iteration, time in found)
    assert found == sorted(set(found))
    assert store.reports.clock(run, "nothing", 20) == []


def test_a_run_gets_no_more_names_than_it_has_room_for(store, run) -> None:
    for rank in range(4):  # each with names of its own
        samples = [Sample(f"rank{rank}/loss{n}", n, 1.0, 1.0) for n in range(MOST_NAMES)]
        store.reports.add_batches([Batch(run, rank, 1, samples)])
    store.reports.add_batches([Batch(run, 0, 2, [Sample("rank0/loss0", 9, 2.0, 5.0)])])

    found = store.reports.final_values(run)

    assert MOST_NAMES < len(found) < 2 * MOST_NAMES
    assert found["rank0/loss0"] == 5.0


@pytest.mark.parametrize("size", [1, 9, 10, 11, 99, 100, 101, 237])
def test_all_points_of_a_batch_are_stored_however_many_a_statement_inserts(
    store, run, size
) -> None:
    sent = [
        Sample(f"name-{n % 3}", n, 100.0 + n, math.nan if n % 7 == 3 else n / 2)
        for n in range(size)
    ]

    store.reports.add_batches(
        [Batch(run, 1, 1, sent[: size // 2]), Batch(run, 1, 2, sent[size // 2 :])]
    )

    assert [repr(point) for point in store.reports.points(run)] == [
        repr(PointRow(n + 1, 1, one.iteration, one.time, one.name, one.value))
        for n, one in enumerate(sent)
    ]


def test_a_batch_that_comes_again_is_skipped(store, run) -> None:
    kept = store.reports.add_batches([batch(run, 0, 1), batch(run, 0, 1)])

    assert kept == {(run, 0): 1}
    assert store.reports.add_batches([batch(run, 0, 1)]) == {(run, 0): 1}
    assert values(store, run, 0) == [1.0]


def test_a_batch_whose_predecessor_is_missing_waits_for_it(store, run) -> None:
    assert store.reports.add_batches([batch(run, 0, 1), batch(run, 0, 3)]) == {(run, 0): 1}
    assert store.reports.add_batches([batch(run, 0, 3)]) == {(run, 0): 1}
    assert store.reports.add_batches([batch(run, 0, 2), batch(run, 0, 3)]) == {(run, 0): 3}

    assert values(store, run, 0) == [1.0, 2.0, 3.0]


def test_ranks_that_take_turns_are_counted_apart(store, run) -> None:
    kept = store.reports.add_batches(
        [batch(run, 0, 1), batch(run, 1, 1), batch(run, 0, 2), batch(run, 1, 3)]
    )

    assert kept == {(run, 0): 2, (run, 1): 1}
    assert values(store, run, 0) == [1.0, 2.0]
    assert values(store, run, 1) == [1001.0]


def test_a_batch_for_an_unknown_run_takes_nothing_with_it(store, run) -> None:
    with pytest.raises(StateError, match=r"No run has the id 'nope'\."):
        store.reports.add_batches([batch(run, 0, 1), batch("nope", 0, 1)])

    assert store.reports.points(run) == []
    assert store.reports.add_batches([batch(run, 0, 1)]) == {(run, 0): 1}


@pytest.fixture(scope="module")
def lasting(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """One store for all examples of a property; each takes a run of its own."""
    with Store(tmp_path_factory.mktemp("lasting") / "store.sqlite3") as store:
        yield store


deliveries = st.lists(
    st.lists(st.tuples(st.integers(0, 1), st.integers(1, 4)), max_size=5), max_size=8
)


@PROFILE
@given(deliveries)
def test_however_batches_arrive_the_store_has_each_once_and_in_order(lasting, posts) -> None:
    run = lasting.wish_run(fresh_wish()).id
    expected: dict[int, int] = defaultdict(int)

    for post in posts:
        kept = lasting.reports.add_batches([batch(run, rank, number) for rank, number in post])

        for rank, number in post:
            expected[rank] += number == expected[rank] + 1
        assert kept == {(run, rank): expected[rank] for rank, _ in post}

    for rank in (0, 1):
        assert values(lasting, run, rank) == [
            rank * 1000.0 + n for n in range(1, expected[rank] + 1)
        ]
    sequences = [point.sequence for point in lasting.reports.points(run)]
    assert sequences == [*range(1, len(sequences) + 1)]


def test_runs_are_numbered_apart(store, run, wish) -> None:
    other = store.wish_run(wish("other")).id

    store.reports.add_batches([batch(run, 0, 1), batch(other, 0, 1), batch(run, 0, 2)])

    assert [point.sequence for point in store.reports.points(run)] == [1, 2]
    assert [point.sequence for point in store.reports.points(other)] == [1]
    assert [row.text for row in store.reports.output(other)] == ["0:1\n"]


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan, 0.1, 1e308, 5e-324])
def test_any_number_comes_back_as_it_was(store, run, value) -> None:
    store.reports.add_batches([Batch(run, 0, 1, (Sample("loss", 1, 2.0, value),))])

    assert repr(store.reports.points(run)[0].value) == repr(value)


@PROFILE
@given(st.text(), st.text())
def test_any_text_comes_back_as_it_was(lasting, name, text) -> None:
    run = lasting.wish_run(fresh_wish()).id

    lasting.reports.add_batches(
        [Batch(run, 0, 1, (Sample(name, 1, 0.0, 1.0),), (Chunk("stderr", 0.0, text),))]
    )

    assert lasting.reports.points(run)[0].name == name
    assert lasting.reports.output(run)[0].text == text


def test_a_reader_gets_what_is_new_and_no_more_than_it_asks_for(store, run) -> None:
    store.reports.add_batches([batch(run, 0, n) for n in range(1, 8)])

    assert [p.sequence for p in store.reports.points(run, after=2, limit=3)] == [3, 4, 5]
    assert [p.sequence for p in store.reports.points(run, after=5, limit=3)] == [6, 7]
    assert store.reports.points(run, after=7) == []
    assert [row.sequence for row in store.reports.output(run, after=4, limit=2)] == [5, 6]


def test_a_run_that_reported_nothing_has_nothing(store, run) -> None:
    store.reports.add_batches([Batch(run, 0, 1)])

    assert store.reports.points(run) == store.reports.output(run) == []
    assert store.reports.final_values(run) == store.reports.endings(run) == {}


def test_final_values_are_the_last_of_each_rank_averaged(store, run) -> None:
    def reported(rank: int, sequence: int, **by_name: float) -> Batch:
        samples = [Sample(name, sequence, 0.0, value) for name, value in by_name.items()]
        return Batch(run, rank, sequence, tuple(samples))

    store.reports.add_batches([reported(0, 1, loss=9.0, accuracy=0.5), reported(1, 1, loss=8.0)])
    store.reports.add_batches([reported(0, 2, loss=1.0), reported(1, 2, loss=2.0, gap=math.nan)])

    finals = store.reports.final_values(run)
    assert [*finals] == ["accuracy", "gap", "loss"]
    assert (finals["accuracy"], finals["loss"]) == (0.5, 1.5)
    assert math.isnan(finals["gap"])


def test_the_last_value_within_a_batch_is_the_final_one(store, run) -> None:
    samples = tuple(Sample("loss", n, 0.0, float(n)) for n in range(5))

    store.reports.add_batches([Batch(run, 0, 1, samples)])

    assert store.reports.final_values(run) == {"loss": 4.0}


def test_endings_come_back_as_they_were(store, run) -> None:
    failed = Ending("failed", 7, "ValueError: x", "Traceback …\n", exited=False, secondary=True)

    store.reports.add_batches([Batch(run, 0, 1), Batch(run, 1, 1), Batch(run, 2, 1)])
    store.reports.add_batches([Batch(run, 0, 2, ending=Ending("finished", 9)), Batch(run, 2, 2)])
    store.reports.add_batches([Batch(run, 1, 2, ending=failed)])

    assert store.reports.endings(run) == {0: Ending("finished", 9), 1: failed}


def test_very_many_points_can_be_followed(store, run) -> None:
    batches = 100 if WEEKLY else 10  # a million points, or a tenth
    for sequence in range(1, batches + 1):
        samples = [Sample("loss", (sequence - 1) * 5000 + n, 0.0, float(n)) for n in range(5000)]
        store.reports.add_batches([Batch(run, rank, sequence, tuple(samples)) for rank in range(2)])

    followed, seen = 0, [0, 0]
    while new := store.reports.points(run, followed):
        assert new[0].sequence == followed + 1
        followed = new[-1].sequence
        for rank in range(2):
            seen[rank] += sum(point.rank == rank for point in new)

    each = batches * 5000
    assert followed == 2 * each
    assert seen == [each, each]
    assert store.reports.points(run, 2 * each - 1) == [
        PointRow(2 * each, 1, each - 1, 0.0, "loss", 4999.0)
    ]
    assert store.reports.final_values(run) == {"loss": 4999.0}


def test_columns_hold_what_the_points_hold(store, run) -> None:
    samples = [Sample("loss", i, 0.0, i / 2) for i in range(7)] + [Sample("acc", 3, 0.0, math.nan)]
    store.reports.add_batches(
        [Batch(run, 1, 1, tuple(samples)), Batch(run, 0, 1, tuple(samples[:2]))]
    )

    last, columns = store.reports.point_columns(run)

    reported = {
        name: [*zip(c.ranks, c.iterations, c.values, strict=True)] for name, c in columns.items()
    }
    assert last == 10
    assert reported["loss"] == [
        (p.rank, p.iteration, p.value) for p in store.reports.points(run) if p.name == "loss"
    ]
    assert math.isnan(columns["acc"].values[0])


def test_columns_are_followed_by_number_and_bounded_by_iterations(store, run) -> None:
    store.reports.add_batches(
        [Batch(run, 0, 1, tuple(Sample("loss", i, 0.0, i) for i in range(10)))]
    )

    last, columns = store.reports.point_columns(run, after=2, limit=3, first=4, last=8)

    assert columns["loss"].iterations == [4, 5, 6]
    assert store.reports.point_columns(run, after=last, first=4, last=8)[1]["loss"].ranks == [0, 0]
    assert store.reports.point_columns(run, after=10) == (10, {})


def test_a_glance_is_evenly_spread_over_the_points_of_one_name(store, run) -> None:
    samples = [Sample(name, i, 0.0, i) for i in range(1000) for name in ("loss", "acc")]
    store.reports.add_batches([Batch(run, 0, 1, tuple(samples))])

    glance = store.reports.spark(run, "loss", 10)

    assert len(glance) == 10
    assert glance == sorted(glance)
    assert (glance[0], store.reports.spark(run, "no such name", 10)) == (0.0, [])


def test_a_glance_is_at_one_rank(store, run) -> None:
    for i in range(5):
        for rank in (1, 2):  # whose batches are as long as several steps of the glance
            samples = [
                Sample("loss", j, 0.0, 1000.0 * rank + j) for j in range(40 * i, 40 * i + 40)
            ]
            store.reports.add_batches([Batch(run, rank, i + 1, tuple(samples))])

    glance = store.reports.spark(run, "loss", 40)

    values = glance[:-4]  # behind the first rank's last batch there is nothing more
    assert values == sorted(values)
    assert all(1000 <= value < 1200 for value in values)


def test_the_tail_of_the_output_begins_where_so_many_characters_are_left(store, run) -> None:
    chunks = tuple(Chunk("stdout", 0.0, "x" * 10) for _ in range(20))
    store.reports.add_batches([Batch(run, 0, 1, (), chunks)])

    assert store.reports.output_tail(run, 0, 50) == 15
    assert store.reports.output_tail(run, 17, 50) == 17
    assert store.reports.output_tail(run, 0, 1000) == 0


def test_the_mean_of_all_steps_leaves_out_the_first(store, run) -> None:
    reported = [(2, 9.0), (4, 1.0), (8, 4.0)]  # of the last two steps, then of four
    samples = tuple(Sample("step/compute", at, 0.0, value) for at, value in reported)
    store.reports.add_batches([Batch(run, 0, 1, (*samples, Sample("step/data", 8, 0.0, 0.5)))])

    assert store.reports.mean_steps(run) == {0: {"compute": pytest.approx(3.0), "data": 0.5}}
    assert store.reports.steps(run)[0]["compute"] == 4.0


def test_a_long_text_is_kept_whole_in_pieces_of_whole_lines(store, run) -> None:
    text = "".join(f"{number:09}\n" for number in range(10_000)) + "x" * 70_000
    store.reports.add_batches([Batch(run, 0, 1, chunks=(Chunk("stdout", 1.0, text),))])

    rows = store.reports.output(run)

    assert "".join(row.text for row in rows) == text
    assert max(len(row.text) for row in rows) <= PIECE_CHARACTERS
    assert [row.text[-1] for row in rows[:3]] == ["\n"] * 3
    assert [row.sequence for row in rows] == [*range(1, len(rows) + 1)]


def test_output_is_read_in_parts_of_bounded_size(store, run) -> None:
    chunks = tuple(Chunk("stdout", 1.0, "x" * 1_000_000) for _ in range(10))
    store.reports.add_batches([Batch(run, 0, 1, chunks=chunks)])

    sizes, after = [], 0
    while rows := store.reports.output(run, after):
        sizes.append(sum(len(row.text) for row in rows))
        after = rows[-1].sequence

    assert sum(sizes) == 10_000_000
    assert max(sizes) <= AT_ONCE_CHARACTERS + PIECE_CHARACTERS


# -- conclusions


SOME = Conclusion(
    {"loss": 0.5, "best": math.inf},
    {0: {"compute": 0.1}, 1: {"compute": 0.2}},
    1,
    ("So.",),
    0.1,
    64,
)


@pytest.fixture
def concluded(store: Store, run: str) -> str:
    """The id of a run that has ended with a point."""
    store.reports.add_batches([Batch(run, 0, 1, (Sample("loss", 1, 0.0, 0.5),))])
    store.put_run_fact(run, state=RunState.FINISHED)
    return run


def test_what_was_kept_is_read_as_it_was(store, concluded) -> None:
    assert store.reports.conclusion(concluded) is None
    assert store.reports.keep_conclusion(concluded, SOME) == SOME
    assert store.reports.conclusion(concluded) == SOME


def test_who_comes_second_gets_what_the_first_has_kept(store, concluded) -> None:
    store.reports.keep_conclusion(concluded, SOME)

    assert store.reports.keep_conclusion(concluded, Conclusion(says=("Otherwise.",))) == SOME


def test_last_values_stay_as_they_were_concluded(store, concluded) -> None:
    store.reports.keep_conclusion(concluded, Conclusion(store.reports.final_values(concluded)))
    store.reports.add_batches([Batch(concluded, 0, 2, (Sample("loss", 2, 0.0, 9.0),))])

    assert store.reports.final_values(concluded) == {"loss": 0.5}


def test_a_conclusion_goes_with_its_run(store, concluded) -> None:
    store.reports.keep_conclusion(concluded, SOME)

    store.removal.delete_run(concluded)

    assert store.reports.conclusion(concluded) is None


def test_a_conclusion_that_makes_no_sense_counts_as_none(store, concluded) -> None:
    with store.transaction() as connection:
        connection.execute("INSERT INTO conclusions VALUES (?, '{]')", (concluded,))

    assert store.reports.conclusion(concluded) is None
