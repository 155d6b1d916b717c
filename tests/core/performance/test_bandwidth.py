"""The arithmetic of bandwidths, and remarks on links, for constructed networks."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations, permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.core.performance.bandwidth import (
    BandwidthSurvey,
    Exchange,
    Measurement,
    Pair,
    Rate,
    Remark,
    RemarkKind,
    algbw,
    as_json,
    busbw,
    describe_links,
    is_enough,
    judge,
    matrix,
    measurement_json,
    measurement_of,
    of_json,
    sentence,
    sizes_up_to,
    tournament,
)

GBIT = 1e9 / 8
DAY = 86_400.0


def survey(count: int = 4, time: float = 0.0, **slow: float) -> BandwidthSurvey:
    """Return links of 1.4 Gbit/s; ``n3=0.7`` gives node 3 less, ``n1_n2=0.7`` one direction."""
    nodes = tuple(f"n{place}" for place in range(1, count + 1))
    pairs = []
    for a, b in permutations(nodes, 2):
        shares = [slow[name] for name in (a, b, f"{a}_{b}") if name in slow]
        pairs.append(Pair(a, b, 50e-6, 1.4 * GBIT * min(shares, default=1.0)))
    return BandwidthSurvey(time, nodes, tuple(pairs))


@given(st.integers(0, 40))
def test_all_meet_once_and_no_one_twice_in_a_round(count: int) -> None:
    rounds = tournament(count)
    met = [pair for played in rounds for pair in played]

    assert sorted(met) == list(combinations(range(count), 2))
    assert all(len({n for pair in played for n in pair}) == 2 * len(played) for played in rounds)
    assert len(rounds) <= count


def test_busbw_is_what_nccl_tests_say() -> None:
    assert busbw(100e6, 0.5, 4) == pytest.approx(1.5 * algbw(100e6, 0.5))


def test_an_exchange_knows_its_bandwidths() -> None:
    one = Exchange(100_000_000, 1.0, 2, "ring")

    assert (one.algbw, one.busbw) == (1e8, 1e8)


def test_equal_links_are_not_spoken_of() -> None:
    assert judge(survey(), survey()) == ()


def test_a_node_whose_links_are_all_slow_is_named_once() -> None:
    (remark,) = judge(survey(n3=0.5))

    assert (remark.kind, remark.nodes) == (RemarkKind.SLOW, ("n3",))
    assert remark.share == pytest.approx(0.5)


def test_one_slow_direction_is_named_with_both_ends() -> None:
    remarks = judge(survey(n1_n2=0.5))

    assert {one.kind for one in remarks} == {RemarkKind.SLOW, RemarkKind.UNEQUAL}
    assert {one.nodes for one in remarks} == {("n1", "n2")}


def test_what_one_node_lost_since_an_earlier_time_is_reported_in_words() -> None:
    earlier, now = survey(time=100.0), survey(time=100.0 + 2 * DAY, n3=0.5)
    lost = [one for one in judge(now, earlier) if one.kind is RemarkKind.LOST]

    assert [sentence(one, now.time, weekday="Tuesday") for one in lost] == [
        "Node n3 lost half its bandwidth since Tuesday: 0.7 of 1.4 Gbit/s."
    ]
    assert "2 days ago" in sentence(lost[0], now.time)


def test_what_all_lost_is_reported_of_the_network() -> None:
    now = survey(n1=0.3, n2=0.3, n3=0.3, n4=0.3)

    assert [(one.kind, one.nodes) for one in judge(now, survey())] == [(RemarkKind.LOST, ())]


def test_nodes_that_were_not_there_before_are_not_compared() -> None:
    assert judge(survey(5, n5=0.9), survey(4)) == ()


def test_links_below_their_rating_and_links_in_a_burst_are_reported() -> None:
    rated = replace(survey(), rating=10 * GBIT)
    burst = replace(survey(), rating=0.75 * GBIT, burst=10 * GBIT)

    assert judge(rated)[0].kind is RemarkKind.BELOW_RATING
    assert sentence(judge(rated)[0], 0) == (
        "The network reaches 1.4 of 10 Gbit/s that these nodes are rated at."
    )
    assert judge(burst)[0].kind is RemarkKind.BURST


def test_what_one_connection_does_not_get_is_not_blamed_on_the_nodes() -> None:
    held = replace(survey(), rating=2.8 * GBIT, flow=1.4 * GBIT)
    slow = replace(survey(), rating=2.8 * GBIT, flow=1.4 * GBIT, sockets=2)

    [remark] = judge(held)
    assert sentence(remark, 0) == (
        "The network reaches 1.4 of 2.8 Gbit/s that these nodes are rated at: EC2 gives one "
        "connection 1.4, and two ranks have 1. The nodes are not to blame."
    )
    assert [one.kind for one in judge(slow)] == [RemarkKind.BELOW_RATING]


def test_the_slowest_link_is_what_an_exchange_goes_by() -> None:
    one = survey(n2_n3=0.4)

    assert one.slowest == one.between("n2", "n3")
    assert one.link().bandwidth == pytest.approx(0.4 * 1.4 * GBIT)
    assert BandwidthSurvey(0.0, ("n1",), ()).link() is None


def test_the_matrix_has_a_row_for_each_sender() -> None:
    rows = matrix(survey(3, n1_n2=0.5))

    assert rows[0][1] == pytest.approx(0.7 * GBIT)
    assert rows[1][0] == pytest.approx(1.4 * GBIT)
    assert rows[2][2] is None


@given(
    st.lists(st.tuples(st.floats(1e-9, 1), st.floats(1, 1e12)), min_size=6, max_size=6),
    st.floats(0, 2e9),
)
def test_a_survey_comes_back_from_the_store_as_it_was(values, time: float) -> None:
    ends = permutations(("a", "ü", "10.0.0.3"), 2)
    pairs = tuple(Pair(*pair, *value) for pair, value in zip(ends, values, strict=True))
    one = BandwidthSurvey(
        time, ("a", "ü", "10.0.0.3"), pairs, (Exchange(1000, 1e-3, 3, "ring"),), 1e9
    )

    assert of_json(as_json(one)) == one
    assert judge(one, one) == judge(of_json(as_json(one)), one)


def test_every_kind_of_remark_has_its_sentence() -> None:
    for kind in RemarkKind:
        for nodes in ((), ("a",), ("a", "b")):
            said = sentence(Remark(kind, nodes, 0.7 * GBIT, 1.4 * GBIT, since=1.0), 10 * DAY)
            assert said.endswith(".")
            assert "0.7" in said


def test_a_network_is_described_by_its_links_or_by_how_far_apart_they_are() -> None:
    pairs = (Pair("a", "b", 60e-3, 2.5e6), Pair("b", "a", 60e-3, 1.25e6))
    two = BandwidthSurvey(0.0, ("a", "b"), pairs)
    more = (*pairs, Pair("b", "c", 1e-4, 1e8), Pair("c", "b", 1e-4, 1e8))

    assert describe_links(two) == "b–a: 120 ms there and back, 1.25 MB/s to 2.5 MB/s"
    assert describe_links(replace(two, nodes=("a", "b", "c"), pairs=more)) == (
        "3 nodes: 200 µs to 120 ms there and back, 1.25 MB/s to 100 MB/s, the least from b to a"
    )
    assert describe_links(replace(two, pairs=())) == ""


def test_a_measurement_comes_back_as_it_was_kept() -> None:
    survey = BandwidthSurvey(
        12.5, ("a", "b"), (Pair("a", "b", 1e-5, 1e8),), (Exchange(1000, 0.5, 2, "ring"),), 2e8
    )
    found = Measurement(survey, 4, 30.0, (Rate("a", "disk read", 1e8),), ("the rest.",))

    assert measurement_of(measurement_json(found)) == found


@given(st.lists(st.floats(0.1, 10.0), min_size=3, max_size=20))
def test_repeating_ends_when_the_better_half_is_alike(seconds: list[float]) -> None:
    ordered = sorted(seconds)

    assert is_enough(seconds) == (ordered[len(ordered) // 2] <= 1.05 * ordered[0])


def test_two_repetitions_are_not_enough() -> None:
    assert not is_enough([1.0, 1.0])
    assert is_enough([1.0, 1.0, 50.0])


def test_sizes_grow_up_to_the_largest() -> None:
    assert sizes_up_to(256_000) == (1_000, 4_000, 16_000, 64_000, 256_000)
    assert sizes_up_to(100_000)[-2:] == (64_000, 100_000)
