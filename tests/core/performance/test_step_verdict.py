"""Verdicts on constructed runs name the cause, and the predicted gain of each remedy is right."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.analysis.conclusion import size_sentences
from workbench.core.performance.batch_size import BatchSizeAdvice
from workbench.core.performance.exchange_model import CODINGS, Codec, Coding, Link
from workbench.core.performance.step_model import Step, Work, WorldShape, step
from workbench.core.performance.step_verdict import Cause, judge, sentence
from workbench.core.performance.what_if import (
    Change,
    ObservedRun,
    RankStep,
    predict_seconds,
    speedup,
    split_waiting,
)

GBIT = 1e9 / 8
SLOW = Link(50e-6, 1.38 * GBIT)
WORK = Work(compute=0.25, nbytes=98e6, batch=32, other=0.01)


def ran(work: Work, nodes: int, link: Link, coding: Coding = CODINGS[0]) -> Step:
    """What would be measured, were the machines as the model says."""
    return step(work, WorldShape(nodes, link), coding=coding)


def observed(work: Work = WORK, nodes: int = 4, link: Link = SLOW, **more) -> ObservedRun:
    parts = ran(work, nodes, link)
    ranks = tuple(
        RankStep(rank, f"node-{rank}", parts.compute, 0.0, parts.exposed, parts.data, parts.other)
        for rank in range(nodes)
    )
    values = {"batch": work.batch, "messages": work.messages, "hidden": work.hidden}
    values |= {"link": link, "rating": 1.44 * GBIT}
    return ObservedRun(ranks, work.nbytes, nodes, **(values | more))


def test_a_slow_network_is_named_with_its_figures_and_the_way_out() -> None:
    said = sentence(judge(observed()))

    assert said.startswith(
        "Network-bound: 77 % of each step moves gradients (98 MB, at 1.35 of 1.44 Gbit/s). "
    )
    assert said.endswith(
        "With `--compress powersgd` training would be about 3.7 times as fast (3.2–4.2), with "
        "10 Gbit/s nodes 2.8 times (2.5–3.2), with `--compress fp16` 1.6 times (1.4–1.8)."
    )


def piped(passing: float, moving: float = 0.0, *, exchanges: bool = False) -> ObservedRun:
    """Two ranks that hand each other what they made of their half of a model."""
    ranks = tuple(
        RankStep(rank, f"node-{rank}", 0.02, 0.0, moving, passing=passing) for rank in range(2)
    )
    return ObservedRun(ranks, 3.14e6, 2, exchanges=exchanges)


@pytest.mark.parametrize(("passing", "moving"), [(0.01, 0.0), (0.0, 0.01), (0.005, 0.005)])
def test_what_ranks_hand_each_other_is_not_called_gradients(passing, moving) -> None:
    verdict = judge(piped(passing, moving))

    assert verdict.cause is Cause.MESSAGES
    assert "33 % of each step goes into messages between ranks" in sentence(verdict)
    assert "gradients" not in sentence(verdict)
    assert "times as fast" not in sentence(verdict)


def test_time_beside_the_training_is_named_where_it_exceeds_the_compute() -> None:
    ranks = tuple(RankStep(rank, "a", 0.02, 0.0, 0.0, 0.001, 0.08) for rank in range(2))

    verdict = judge(ObservedRun(ranks, 0.0, 1))

    assert verdict.cause is Cause.OTHER
    assert sentence(verdict).startswith("Slow loop: 79 % of each step is what the loop does beside")


def test_ranks_with_parts_of_a_model_that_differ_are_no_stragglers() -> None:
    ranks = (RankStep(0, "a", 0.01, 0.0, 0.0, passing=0.05), RankStep(1, "b", 0.04, 0.0, 0.0,
             passing=0.02))  # fmt: skip

    assert judge(ObservedRun(ranks, 3.14e6, 2, exchanges=False)).cause is Cause.MESSAGES


def test_messages_beside_an_exchange_are_distinguished_from_it() -> None:
    mostly_messages = judge(piped(0.02, 0.01, exchanges=True))
    mostly_gradients = judge(piped(0.01, 0.02, exchanges=True))

    assert mostly_messages.cause is Cause.MESSAGES
    assert "40 % of each step" in sentence(mostly_messages)
    assert mostly_gradients.cause is Cause.NETWORK
    assert "moves gradients (3.14 MB, " in sentence(mostly_gradients)


def test_more_nodes_are_no_remedy_where_each_has_its_part_of_the_model() -> None:
    said = sentence(judge(piped(0.001)))

    assert said == "Compute-bound: 95 % of each step is compute, as it should be."


def test_messages_stay_as_they_are_whatever_is_done_about_the_exchange() -> None:
    seen = piped(0.02, 0.01, exchanges=True)

    assert predict_seconds(seen, Change()) == pytest.approx(0.05)


@pytest.mark.parametrize("coding", [one for one in CODINGS if one.codec is not Codec.NONE])
@pytest.mark.parametrize("nodes", [2, 3, 4, 8])
def test_each_codec_gives_what_was_predicted(coding: Coding, nodes: int) -> None:
    before, after = ran(WORK, nodes, SLOW), ran(WORK, nodes, SLOW, coding)

    prediction = speedup(observed(nodes=nodes), Change(coding=coding))

    assert prediction == pytest.approx(before.total / after.total, rel=0.01)


def test_faster_nodes_give_what_was_predicted() -> None:
    verdict = judge(observed())
    fast = next(one for one in verdict.remedies if one.change.bandwidth)

    came = ran(WORK, 4, replace(SLOW, bandwidth=fast.change.bandwidth))

    assert fast.do == "10 Gbit/s nodes"
    assert fast.seconds == pytest.approx(came.total, rel=0.01)
    assert fast.speedup == pytest.approx(ran(WORK, 4, SLOW).total / came.total, rel=0.01)


def test_double_buffering_gives_what_was_predicted() -> None:
    prediction = speedup(observed(), Change(hidden=1.0))

    came = ran(replace(WORK, hidden=1.0), 4, SLOW)

    assert prediction == pytest.approx(ran(WORK, 4, SLOW).total / came.total, rel=0.01)


def test_an_exchange_that_is_slower_than_the_link_stays_so() -> None:
    """A library that reaches a third of the link reaches a third of it with fp16 too."""
    whole = observed()
    poor = replace(whole, ranks=tuple(replace(one, moving=3 * one.moving) for one in whole.ranks))
    half = Change(coding=Coding(Codec.FP16, 0.5))

    saved = predict_seconds(poor, Change()) - predict_seconds(poor, half)

    assert saved == pytest.approx(1.5 * ran(WORK, 4, SLOW).exchange, rel=0.01)


def test_a_library_that_wastes_the_link_gets_the_advice_of_another() -> None:
    whole = observed()
    poor = replace(whole, ranks=tuple(replace(one, moving=3 * one.moving) for one in whole.ranks))
    remedies = {one.do: one for one in judge(poor).remedies}

    ours = remedies["`--communicator auto`"]

    assert ours.seconds == pytest.approx(ran(WORK, 4, SLOW).total, rel=0.01)
    assert remedies["`--compress bf16`"].speedup > ours.speedup
    assert "`--communicator auto`" not in {one.do for one in judge(whole).remedies}


def test_where_an_exchange_can_hide_under_the_compute_a_codec_gives_more() -> None:
    shown, hidden = (
        {one.do: one.speedup for one in judge(observed(backward=0.66, room=room)).remedies}
        for room in (0.0, 1.0)
    )

    assert hidden["`--compress powersgd`"] > shown["`--compress powersgd`"]
    assert hidden["`--communicator auto`"] > 1.1
    assert hidden["`--double-buffering`"] > hidden["`--communicator auto`"]
    assert "`--double-buffering`" not in shown  # no core is left to move bytes meanwhile


def test_what_hides_under_the_compute_is_taken_from_what_was_seen() -> None:
    """A third of the compute hid some of the exchange; it hides as much of one half as long."""
    hidden = replace(WORK, hidden=1 / 3)
    parts = ran(hidden, 4, SLOW)
    seen = observed(hidden, ours=True, whole=parts.exchange, backward=0.4, room=1.0)

    half = Coding(Codec.FP16, 0.5)
    came = ran(hidden, 4, SLOW, half)

    assert predict_seconds(seen, Change()) == pytest.approx(parts.total)
    assert predict_seconds(seen, Change(coding=half)) == pytest.approx(came.total, rel=0.01)


@pytest.mark.parametrize("coding", [one for one in CODINGS if one.codec is not Codec.NONE])
def test_a_compressed_run_gets_the_gain_of_other_codecs(coding: Coding) -> None:
    parts = ran(WORK, 4, SLOW, coding)
    moving = parts.exposed + parts.coding
    ranks = tuple(RankStep(n, f"node-{n}", 0.25, 0.0, moving, 0.0, 0.01) for n in range(4))
    more = {"batch": 32, "link": SLOW, "coding": coding, "ours": True, "whole": moving}
    seen = ObservedRun(ranks, WORK.nbytes, 4, **more)

    for other in CODINGS:
        came = parts.total / ran(WORK, 4, SLOW, other).total
        assert speedup(seen, Change(coding=other)) == pytest.approx(came, rel=0.01)


def test_a_burst_that_a_link_lets_pass_helps_more_bytes_no_more() -> None:
    """A tenth of a second less for half of the bytes is a tenth of a second less for all."""
    half = Coding(Codec.FP16, 0.5)
    moving = ran(WORK, 4, SLOW, half).exchange - 0.1
    ranks = tuple(RankStep(n, "", 0.25, 0.0, moving, 0.0, 0.01) for n in range(4))
    seen = ObservedRun(ranks, WORK.nbytes, 4, link=SLOW, coding=half, ours=True, whole=moving)

    came = ran(WORK, 4, SLOW).total - 0.1

    assert predict_seconds(seen, Change(coding=CODINGS[0])) == pytest.approx(came, rel=0.001)


def test_a_compressed_run_speaks_of_the_bytes_that_move() -> None:
    half = Coding(Codec.FP16, 0.5)
    parts = ran(WORK, 4, SLOW, half)
    ranks = tuple(RankStep(n, f"node-{n}", 0.25, 0.0, parts.exposed, 0.0, 0.01) for n in range(4))
    more = {"link": SLOW, "rating": 1.44 * GBIT, "coding": half, "ours": True}

    said = sentence(judge(ObservedRun(ranks, WORK.nbytes, 4, whole=parts.exposed, **more)))

    assert "moves gradients (49 MB, fp16 of 98 MB, at 1.35 of 1.44 Gbit/s)." in said
    assert "`--compress fp16`" not in said
    assert "--communicator" not in said
    assert "`--compress powersgd` training would be about 2.3 times as fast (2.0–2.6)" in said


@pytest.mark.parametrize("nodes", [1, 4])
def test_a_codec_that_takes_longer_than_the_link_is_the_cause(nodes: int) -> None:
    costly = Coding(Codec.TOPK, 0.02, 1e-9, 0.2e-9, sums=False)
    ranks = tuple(RankStep(n, f"node-{n % nodes}", 0.25, 0.0, 0.12, 0.0, 0.01) for n in range(4))
    more = {"link": Link(50e-6, 40 * GBIT) if nodes > 1 else None, "ours": True, "whole": 0.12}
    more |= {"coding": costly, "codings": (CODINGS[0], costly)}

    verdict = judge(ObservedRun(ranks, WORK.nbytes, nodes, **more))

    assert verdict.cause is Cause.CODEC
    assert sentence(verdict).startswith(
        "Compression-bound: 32 % of each step exchanges gradients, and most of that is the "
        "computing of `--compress topk`. With `--compress none` training would be about "
    )


def test_a_codec_that_costs_more_than_it_saves_is_advised_against() -> None:
    link = Link(50e-6, 40 * GBIT)
    costly = Coding(Codec.TOPK, 0.02, 1e-9, 0.2e-9, sums=False)
    parts = ran(WORK, 4, link, costly)
    moving = parts.exposed + parts.coding
    ranks = tuple(RankStep(n, "", 0.25, 0.0, moving, 0.0, 0.01) for n in range(4))
    more = {"link": link, "coding": costly, "ours": True, "whole": moving}

    verdict = judge(ObservedRun(ranks, WORK.nbytes, 4, codings=(CODINGS[0], costly), **more))

    assert [one.do for one in verdict.remedies] == ["`--compress none`"]
    assert verdict.remedies[0].seconds == pytest.approx(ran(WORK, 4, link).total, rel=0.01)


def test_what_a_straggler_costs_is_reported_with_its_rank_and_host() -> None:
    ranks = tuple(RankStep(rank, f"node-{rank}", 0.2, 0.1, 0.02) for rank in range(3))
    late = RankStep(3, "node-3", 0.3, 0.0, 0.02)
    verdict = judge(ObservedRun((*ranks, late), 10e6, 4, link=Link(50e-6, 10 * GBIT)))

    assert verdict.cause is Cause.STRAGGLER
    assert verdict.remedies[0].speedup == pytest.approx(0.32 / 0.22, rel=0.01)
    assert sentence(verdict) == (
        "Straggler: rank 3 on node-3 computes for 300 ms a step, 1.5 times as long as the others. "
        "See what else runs on node-3, or replace that node. With all ranks alike training would "
        "be about 1.5 times as fast (1.3–1.7)."
    )


def test_all_ranks_of_a_slow_host_are_one_straggler() -> None:
    ranks = [RankStep(rank, "a", 0.2, 0.1, 0.02) for rank in range(4)]
    ranks += [RankStep(rank, "b", 0.3, 0.0, 0.02) for rank in (4, 5)]

    verdict = judge(ObservedRun(tuple(ranks), 10e6, 2))

    assert "Straggler: ranks 4-5 on b compute for 300 ms a step" in sentence(verdict)
    assert verdict.share == pytest.approx(0.1 / 0.32)


def test_a_rank_whose_data_is_late_is_distinguished_from_one_that_computes_long() -> None:
    late = RankStep(0, "a", 0.2, 0.0, 0.02, data=0.3)
    others = [RankStep(rank, "b", 0.2, 0.29, 0.02, data=0.01) for rank in (1, 2)]

    said = sentence(judge(ObservedRun((late, *others), 10e6, 3)))

    assert "rank 0 on a waits for its data for 300 ms a step, the others for 10 ms. " in said
    assert "See where data is read from on a, or stage it there." in said


def test_the_slower_of_two_ranks_is_the_straggler() -> None:
    slow = RankStep(1, "", 0.25, 0.0, 0.01, other=0.01)

    said = sentence(judge(ObservedRun((RankStep(0, "", 0.2, 0.06, 0.01), slow), 1e6, 2)))

    assert "rank 1 computes for 250 ms a step, 1.2 times as long as the other rank." in said
    assert "See what else runs on its node, or replace that node." in said


def test_slow_data_is_not_taken_for_anything_else() -> None:
    run = observed(replace(WORK, data=0.5, nbytes=1e6))
    verdict = judge(run)

    came = ran(replace(WORK, nbytes=1e6), 4, SLOW)

    assert verdict.cause is Cause.DATA
    assert verdict.remedies[0].seconds == pytest.approx(came.total, rel=0.01)


def test_a_verdict_on_compute_has_the_gain_of_more_nodes() -> None:
    work = replace(WORK, nbytes=1e6)
    verdict = judge(observed(work))
    more = verdict.doubling

    came = 2 * ran(work, 4, SLOW).total / ran(work, 8, SLOW).total

    assert verdict.cause is Cause.COMPUTE
    assert verdict.remedies == ()
    assert more.speedup == pytest.approx(came, rel=0.01)
    assert size_sentences(verdict, None) == [
        "With twice the nodes training would be about 2.0 times as fast (1.7–2.3)."
    ]


def test_many_small_messages_are_latency() -> None:
    work = replace(WORK, nbytes=1e6, messages=2000)
    link = Link(1e-3, 10 * GBIT)
    verdict = judge(observed(work, link=link))

    whole = next(one for one in verdict.remedies if one.do == "`--communicator auto`")

    assert verdict.cause is Cause.LATENCY
    assert whole.seconds == pytest.approx(ran(replace(work, messages=1), 4, link).total, rel=0.01)
    assert sentence(verdict).endswith(
        "many small messages. With `--communicator auto` training would be about 16 times as fast "
        "(14–18)."
    )


def test_a_batch_that_no_codec_can_help_is_too_small() -> None:
    work = replace(WORK, compute=0.002, other=0.0)
    verdict = judge(observed(work))
    larger = next(one for one in verdict.remedies if one.change.batch > 1)

    came = ran(replace(work, compute=0.002 * larger.change.batch), 4, SLOW)
    gained = larger.change.batch * ran(work, 4, SLOW).total / came.total

    assert verdict.cause is Cause.BATCH
    assert larger.speedup == pytest.approx(gained, rel=0.01)


def test_waiting_is_distinguished_from_moving_by_who_comes_last() -> None:
    early, late = RankStep(0, "a", 0.2, 0.0, 0.15), RankStep(1, "b", 0.3, 0.0, 0.05)

    apart = split_waiting((early, late))

    assert [(one.waiting, one.moving) for one in apart] == [
        (pytest.approx(0.1), 0.05),
        (0.0, 0.05),
    ]


def test_without_a_measured_link_the_gradients_tell_of_it() -> None:
    known, unknown = observed(), replace(observed(), link=None)
    half = Change(coding=Coding(Codec.FP16, 0.5))

    assert speedup(unknown, half) == pytest.approx(speedup(known, half), rel=0.02)


def here(*ranks: RankStep, **more) -> ObservedRun:
    """A run on one machine."""
    return ObservedRun(ranks, 1e6, 1, **more)


NETWORKS = re.compile(r"node|network|--compress|Gbit|replace")


@pytest.mark.parametrize("link", [None, SLOW])
@pytest.mark.parametrize("moving", [0.0, 0.1, 0.5])
@pytest.mark.parametrize("late", [0.0, 0.3])
def test_on_one_machine_nothing_is_reported_of_networks_or_nodes(link, moving, late) -> None:
    ranks = (RankStep(0, "vm", 0.2, late, moving), RankStep(1, "vm", 0.2 + late, 0.0, moving))

    verdict = judge(here(*ranks, link=link, backward=0.6, room=0.5))
    said = [sentence(verdict), *size_sentences(verdict, BatchSizeAdvice(400, 330, 480, 64, 1.7))]

    assert not NETWORKS.search(" ".join(said))


def test_a_rank_that_is_late_on_one_machine_shares_it_with_something_else() -> None:
    late = RankStep(1, "vm", 0.3, 0.0, 0.01)

    said = sentence(judge(here(RankStep(0, "vm", 0.2, 0.1, 0.01), late)))

    assert said == (
        "Straggler: rank 1 computes for 300 ms a step, 1.5 times as long as the other rank. See "
        "what else runs on this machine. With all ranks alike training would be about 1.5 times "
        "as fast (1.3–1.7)."
    )


def test_what_all_ranks_wait_for_in_turn_is_not_blamed_on_the_slowest() -> None:
    """Who is 1.2 times as slow as the other cannot make training 2.6 times as slow."""
    run = here(RankStep(0, "vm", 0.2, 0.5, 0.01), RankStep(1, "vm", 0.24, 0.46, 0.01))

    verdict = judge(run)

    assert verdict.cause is Cause.WAITING
    assert speedup(run, Change(even=True)) == pytest.approx(0.71 / 0.67)
    assert sentence(verdict) == (
        "Waiting-bound: 65 % of each step waits for other ranks, not always the same one. They "
        "share this machine's cores with each other and with other programs."
    )


@given(st.floats(0.01, 1), st.floats(0, 1), st.floats(0, 1), st.floats(0, 1), st.floats(0, 1))
def test_equal_ranks_never_give_more_than_the_slowest_is_slower(
    compute, more, waits, also_waits, moving
) -> None:
    ranks = (RankStep(0, "a", compute, waits + more, moving),
             RankStep(1, "b", compute + more, waits + also_waits, moving))  # fmt: skip

    gives = speedup(ObservedRun(ranks, 1e6, 2), Change(even=True))

    assert 1 - 1e-9 <= gives <= (compute + more) / compute + 1e-9


def test_ranks_that_share_cores_are_reported() -> None:
    ranks = [RankStep(rank, "vm", 0.2, 0.0, 0.01) for rank in range(4)]

    said = sentence(judge(here(*ranks, cores=2)))

    assert said.endswith("is compute, as it should be. 4 ranks share 2 cores.")


def test_advice_that_noise_could_explain_is_not_given() -> None:
    quiet, busy = (judge(replace(observed(nodes=2), noise=noise)) for noise in (0.01, 0.6))

    assert "`--compress bf16`" in {one.do for one in quiet.remedies}
    assert "`--compress bf16`" not in {one.do for one in busy.remedies}


def test_ranks_that_differ_by_less_than_the_noise_are_alike() -> None:
    ranks = (RankStep(0, "a", 0.2, 0.06, 0.01), RankStep(1, "b", 0.26, 0.0, 0.01))

    causes = [judge(ObservedRun(ranks, 1e6, 2, noise=noise)).cause for noise in (0.1, 0.4)]

    assert causes == [Cause.STRAGGLER, Cause.COMPUTE]


def test_a_verdict_on_a_run_that_continues_is_so_far() -> None:
    assert sentence(judge(observed()), live=True).startswith("Network-bound so far: 77 %")


@pytest.mark.parametrize(
    ("nodes", "further", "end"),
    [
        (4, 1.9, "; with twice the nodes training would be about 1.9 times as fast (1.7–2.2)."),
        (4, 1.02, "; adding nodes does not pay."),
        (1, 1.9, "; all ranks together use 128."),
    ],
)
def test_nodes_and_batch_are_decided_together(nodes, further, end) -> None:
    verdict = judge(observed(replace(WORK, nbytes=1e6), nodes=nodes))

    (said,) = size_sentences(verdict, BatchSizeAdvice(400, 330, 480, 128, further))

    assert said.startswith("Useful batch: about 400 examples (330–480); all ranks together use 128")
    assert said.endswith(end)


def test_where_twice_the_nodes_are_slower_a_useful_batch_does_not_say_that_they_pay() -> None:
    work = replace(WORK, compute=0.001, other=0.0, nbytes=1e5, messages=200)
    verdict = judge(observed(work, nodes=2, link=Link(1e-3, GBIT)))

    (said,) = size_sentences(verdict, BatchSizeAdvice(4000, 3300, 4800, 64, 2.0))

    assert verdict.doubling.speedup < 1.05
    assert said.endswith("; adding nodes does not pay.")


@given(
    st.floats(1e-4, 10), st.floats(0, 1), st.floats(0, 10), st.floats(0, 1), st.floats(0, 1e9),
    st.integers(1, 16), st.integers(1, 200), st.booleans(),
)  # fmt: skip
def test_any_run_has_a_verdict_and_the_same_one_twice(
    compute, waiting, moving, data, nbytes, nodes, messages, measured
) -> None:
    ranks = tuple(RankStep(rank, "a", compute, waiting, moving, data) for rank in range(nodes))
    run = ObservedRun(
        ranks, nbytes, nodes, messages=messages, link=SLOW if measured else None, rating=1e8
    )

    verdict = judge(run)

    assert verdict == judge(run)
    assert 0 <= verdict.share <= 1 + 1e-9
    assert sentence(verdict).endswith(".")
    assert predict_seconds(run, Change()) == pytest.approx(ranks[0].total, rel=1e-6)
