"""Ranks' reports determine the overlap of an exchange and the gain of each codec."""

from __future__ import annotations

import pytest

from workbench.core.performance.exchange_metrics import add_exchange, codings_of
from workbench.core.performance.exchange_model import CODINGS, Codec
from workbench.core.performance.what_if import ObservedRun, RankStep

MOVING = 0.1
SEEN = ObservedRun(tuple(RankStep(n, f"n{n}", 0.2, 0.0, MOVING) for n in range(4)), 100e6, 4)
BUSY = {"backward": 0.12, "busy": 0.25, "cores": 1.0}
OVERLAPS = {"codec none": 1.0, "overlaps": 1.0, "delayed": 0.0, "wire": 150e6}


def test_where_no_one_tells_anything_nothing_is_known_to_hide() -> None:
    assert add_exchange(SEEN, []) == SEEN
    assert add_exchange(SEEN, [{"nbytes": 1.0}] * 4).overlapped == 0.0


def test_what_could_hide_is_the_backward_pass_as_far_as_a_core_is_idle() -> None:
    seen = add_exchange(SEEN, [BUSY] * 4)

    assert not seen.ours
    assert seen.hidden == 0.0
    assert seen.overlapped == pytest.approx(0.9 * 0.6 * 0.75)
    assert seen.delayed == pytest.approx(0.75)


def test_ranks_of_one_node_share_its_cores() -> None:
    ranks = tuple(RankStep(n, "here", 0.2, 0.0, MOVING) for n in range(4))

    busy = add_exchange(ObservedRun(ranks, 1e6, 1), [{**BUSY, "cores": 4.0, "busy": 1.0}] * 4)
    idle = add_exchange(ObservedRun(ranks, 1e6, 1), [{**BUSY, "cores": 8.0, "busy": 1.0}] * 4)

    assert (busy.room, idle.room) == (0.0, 1.0)


def test_what_hides_is_what_an_exchange_takes_and_a_step_does_not_show() -> None:
    reported = [{**BUSY, **OVERLAPS, "whole": 0.17 + 0.01 * rank} for rank in range(4)]

    seen = add_exchange(SEEN, reported)

    assert seen.ours
    assert seen.whole == 0.17  # of the last rank, which does not wait
    assert seen.hidden == pytest.approx((0.17 - MOVING) / 0.2)


def test_what_a_framework_sends_by_itself_hides_alike() -> None:
    reported = {**BUSY, "overlaps": 1.0, "whole": 0.17}

    seen = add_exchange(SEEN, [reported] * 4)

    assert not seen.ours
    assert (seen.whole, seen.coding.codec) == (0.17, Codec.NONE)
    assert seen.hidden == pytest.approx((0.17 - MOVING) / 0.2)


def test_no_more_hides_than_there_is_room_for() -> None:
    """A bucket waits for the others' gradients, and is then longer on its way than it moves."""
    seen = add_exchange(SEEN, [{**BUSY, **OVERLAPS, "early": 0.5, "whole": 0.5}] * 4)

    assert seen.hidden == pytest.approx(seen.overlapped)
    assert seen.whole == pytest.approx(MOVING + seen.overlapped * 0.2)


def test_a_meeting_beside_a_full_link_is_part_of_the_exchange() -> None:
    ranks = tuple(RankStep(n, "", 0.2, 0.02 + 0.01 * n, MOVING) for n in range(4))

    seen = add_exchange(ObservedRun(ranks, 100e6, 4), [{**BUSY, **OVERLAPS, "whole": 0.2}] * 4)

    assert [one.waiting for one in seen.ranks] == pytest.approx([0.0, 0.01, 0.02, 0.03])
    assert {one.moving for one in seen.ranks} == {MOVING + 0.02}


def test_where_nearly_all_is_hidden_there_may_be_room_for_more() -> None:
    ranks = tuple(RankStep(n, "", 0.2, 0.0, 0.001) for n in range(4))
    seen = ObservedRun(ranks, 1e6, 4)
    reported = {**BUSY, **OVERLAPS, "whole": 0.03}

    overlaps = add_exchange(seen, [reported] * 4)
    delayed = add_exchange(seen, [{**reported, "delayed": 1.0}] * 4)

    assert overlaps.hidden == overlaps.overlapped > 0.03 / 0.2
    assert delayed.hidden == delayed.delayed > overlaps.hidden


@pytest.mark.parametrize(
    ("codec", "wire", "ratio"),
    [(Codec.FP16, 75e6, 0.5), (Codec.TOPK, 6e6, 0.02), (Codec.NONE, 150e6, 1.0)],
)
def test_the_bytes_on_the_wire_say_what_a_codec_leaves(codec, wire, ratio) -> None:
    reported = {**OVERLAPS, "codec none": 0.0, f"codec {codec}": 1.0, "overlaps": 0.0, "wire": wire}

    seen = add_exchange(SEEN, [reported] * 4)

    assert seen.coding.codec is codec
    assert seen.coding.ratio == pytest.approx(ratio)
    assert (seen.whole, seen.hidden) == (MOVING, 0.0)


def test_codecs_are_as_they_are_for_this_model_on_this_machine() -> None:
    reported = {"small": 0.1, "powersgd": 0.14, "cost fp16": 4e-9}
    found = {one.codec: one for one in codings_of(reported)}

    assert found[Codec.FP16].ratio == pytest.approx(0.1 + 0.9 * 0.5)
    assert found[Codec.POWERSGD].ratio == 0.14
    assert found[Codec.FP16].encode + found[Codec.FP16].decode == pytest.approx(4e-9)
    assert found[Codec.NONE] == CODINGS[0]
