"""The frontier of constructed offers has the time and cost of each of them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workbench.core.fleet.model import Offer
from workbench.core.fleet.offers import relative_speed
from workbench.core.performance.exchange_model import CARRIED, CODINGS, MEMORY, PLAIN, Codec, Link
from workbench.core.performance.frontier import (
    LATENCY,
    Interruptions,
    Task,
    frontier,
    ranks_of,
)
from workbench.core.performance.scaling import BatchPolicy
from workbench.core.performance.step_model import Work, WorldShape, step

WORK = Work(0.4, 102e6, batch=32)
TASK = Task(WORK, 128_000, gpu="K80")
CALM = Interruptions(rate=0.0)
SLOW = Offer("p2.xlarge", "a", 0.3, vcpus=4, memory=61, gpus=1, gpu="K80", network=1.44)
FAST = replace(SLOW, type="p2.fast", price=0.9, network=10.0)
OFFERS = st.builds(
    Offer,
    type=st.sampled_from(["a.x", "b.x", "c.x", "d.x", "e.x"]),
    zone=st.sampled_from(["1", "2"]),
    price=st.floats(0.01, 10),
    vcpus=st.integers(1, 32),
    memory=st.just(8.0),
    gpus=st.integers(1, 8),
    gpu=st.sampled_from(["K80", "T4", "V100"]),
    network=st.floats(0.1, 100),
    quota=st.one_of(st.none(), st.integers(0, 256)),
)


def test_time_and_money_are_those_of_the_model() -> None:
    found = frontier(TASK, [SLOW], most=8, interruptions=CALM)
    link = Link(LATENCY, CARRIED * 1.44e9 / 8)

    for curve in found.curves:
        for nodes, seconds, dollars in zip(curve.sizes, curve.seconds, curve.dollars, strict=True):
            each = step(WORK, WorldShape(nodes, link, 1, MEMORY)).total
            assert seconds == pytest.approx(128_000 / 32 / nodes * each)
            assert dollars == pytest.approx(seconds * nodes * 0.3 / 3600)


def test_cheap_nodes_pay_with_a_codec_and_not_without() -> None:
    (plain,) = frontier(TASK, [SLOW], codings=(PLAIN,), interruptions=CALM).curves
    (coded,) = frontier(TASK, [SLOW], codings=CODINGS, interruptions=CALM).curves

    assert plain.seconds[0] < plain.seconds[1]
    assert coded.codecs[7] is Codec.POWERSGD
    assert coded.seconds[0] / coded.seconds[7] > 5


def test_no_one_on_the_frontier_is_beaten_in_both() -> None:
    found = frontier(TASK, [SLOW, FAST], codings=CODINGS)
    seconds = [one.seconds for one in found.choices]
    dollars = [one.dollars for one in found.choices]

    assert seconds == sorted(seconds)
    assert dollars == sorted(dollars, reverse=True)
    assert {one.type for one in found.choices} == {"p2.xlarge", "p2.fast"}


def test_gradients_stay_as_they_are_where_a_codec_gains_next_to_nothing() -> None:
    task = replace(TASK, work=replace(WORK, nbytes=1e5))

    (curve,) = frontier(task, [FAST], codings=CODINGS).curves

    assert set(curve.codecs) == {Codec.NONE}


def test_what_is_as_quick_and_dearer_is_not_on_the_frontier() -> None:
    task = replace(TASK, work=replace(WORK, hidden=1.0))

    found = frontier(task, [SLOW, FAST], codings=CODINGS)

    assert {one.type for one in found.choices} == {"p2.xlarge"}


def test_of_a_type_the_cheapest_zone_counts() -> None:
    found = frontier(TASK, [replace(SLOW, zone="b", price=0.2), SLOW])

    assert [(one.zone, one.price) for one in found.curves] == [("b", 0.2)]


def test_no_more_nodes_are_shown_than_the_quota_allows() -> None:
    found = frontier(TASK, [replace(SLOW, quota=20), replace(FAST, quota=3)])

    assert [one.sizes[-1] for one in found.curves] == [5]
    assert found.left_out == ("p2.fast: not even one fits the quota, or the batch.",)


def test_what_was_not_measured_is_left_out_and_said() -> None:
    strange = replace(SLOW, type="z.x", gpu="Z9")
    core = replace(SLOW, type="c5.large", gpus=0, gpu="")
    unrated = replace(SLOW, type="old.x", network=0.0)

    found = frontier(TASK, [SLOW, strange, core, unrated])

    assert [one.type for one in found.curves] == ["p2.xlarge"]
    assert "c5.large, z.x: the step was measured on a K80" in found.left_out[0]
    assert "old.x" in found.left_out[1]


def test_another_gpu_is_guessed_and_said_to_be() -> None:
    found = frontier(TASK, [replace(SLOW, type="g4dn.xlarge", gpu="T4", network=5.0)])

    assert all(one.guessed for one in found.choices)
    assert found.choices[-1].high > 1.3 * found.choices[-1].seconds
    assert relative_speed("T4", "K80") == pytest.approx(1.62, abs=0.01)
    assert relative_speed("NVIDIA A10G", "Tesla T4") > 2


def test_interruptions_cost_more_with_more_nodes() -> None:
    calm = frontier(TASK, [FAST], interruptions=CALM).curves[0]
    stormy = frontier(TASK, [FAST], interruptions=Interruptions(0.5, 120.0)).curves[0]

    lost = [b / a - 1 for a, b in zip(calm.seconds, stormy.seconds, strict=True)]

    assert lost[0] == pytest.approx(0.5 * 120 / 3600)
    assert lost[9] == pytest.approx(10 * lost[0])


def test_a_batch_that_is_fixed_in_total_bounds_the_ranks() -> None:
    task = replace(TASK, work=replace(WORK, nbytes=1e6), batch=BatchPolicy.TOTAL)
    (curve,) = frontier(task, [replace(FAST, gpus=4)], interruptions=CALM).curves

    assert curve.sizes[-1] == 8
    assert curve.seconds[0] > curve.seconds[-1]


def test_what_was_learned_of_communication_counts() -> None:
    (plain,) = frontier(TASK, [SLOW], interruptions=CALM).curves
    (learned,) = frontier(replace(TASK, correction=1.5), [SLOW], interruptions=CALM).curves
    own = 128_000 / 32 * 0.4 / 4

    assert learned.seconds[0] == plain.seconds[0]
    assert learned.seconds[3] - own == pytest.approx(1.5 * (plain.seconds[3] - own))


def test_a_link_that_was_measured_takes_the_place_of_the_rating() -> None:
    measured = frontier(TASK, [SLOW], measured={"p2.xlarge": 0.5e9 / 8}).curves[0]

    assert measured.seconds[1] > 2 * frontier(TASK, [SLOW]).curves[0].seconds[1]


def test_where_adding_nodes_stops_paying_is_reported() -> None:
    slow, fast = (
        frontier(TASK, [one], interruptions=CALM).curves[0] for one in (SLOW, replace(FAST))
    )
    tiny = frontier(replace(TASK, work=replace(WORK, compute=0.001)), [SLOW]).curves[0]

    assert fast.stops > 8
    assert tiny.stops == 1
    assert not tiny.gains
    assert slow.stops > 2  # by then two nodes' loss is made good


def test_no_offers_make_no_frontier() -> None:
    assert frontier(TASK, []).choices == ()
    assert ranks_of(replace(SLOW, gpus=0, vcpus=1)) == 1
    assert ranks_of(replace(SLOW, gpus=0, vcpus=8)) == 4


@settings(max_examples=50, deadline=None)
@given(st.lists(OFFERS, max_size=8), st.integers(1, 40), st.sampled_from(BatchPolicy))
def test_any_market_has_a_frontier_and_the_same_one_twice(offers, most, batch) -> None:
    task = replace(TASK, batch=batch)
    found = frontier(task, offers, most=most, codings=CODINGS)

    assert found == frontier(task, offers, most=most, codings=CODINGS)
    for one in found.choices:
        assert one.low <= one.seconds <= one.high
        assert not any(
            other.seconds <= one.seconds and other.dollars <= one.dollars and other != one
            for other in found.choices
        )
    assert all(1 <= one.stops <= most and len(one.sizes) >= 1 for one in found.curves)
