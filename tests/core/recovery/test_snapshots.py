"""When a training is saved, which snapshots are kept, and what a run resumes from."""

from __future__ import annotations

import json
import math

import pytest
from msgspec.structs import replace

from workbench.core.recovery.snapshots import (
    NODE_SECONDS,
    REDONE_SECONDS,
    SHARE_OF_TIME,
    SnapshotFile,
    SnapshotManifest,
    decode_manifest,
    encode_manifest,
    estimate_displaced,
    for_training,
    interval,
    superfluous,
)


def manifest(training=1, iteration=10, *, attempt=1, final=False) -> SnapshotManifest:
    return SnapshotManifest(
        run="a-run",
        attempt=attempt,
        generation=2,
        training=training,
        iteration=iteration,
        epoch=0.5,
        ranks=2,
        final=final,
        versions=(("chainer", "7.8.1"),),
        files=(SnapshotFile("trainer.npz", 10, 7),),
    )


def with_file(name: str) -> str:
    return encode_manifest(replace(manifest(), files=(SnapshotFile(name, 1, 1),)))


def test_a_manifest_is_read_as_it_was_written() -> None:
    assert decode_manifest(encode_manifest(manifest())) == manifest()


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "Expecting value"),
        ("[]", "damaged"),
        ("{}", "damaged"),
        ('{"format": 1}', "damaged"),
        ('{"format": 2}', "it has format 2, and this version reads 1"),
        (json.dumps({**json.loads(encode_manifest(manifest())), "color": 1}), "damaged"),
        (json.dumps({**json.loads(encode_manifest(manifest())), "training": "/../x"}), "damaged"),
        (json.dumps({**json.loads(encode_manifest(manifest())), "attempt": -1}), "damaged"),
        (with_file("../x"), "damaged"),
        (with_file("manifest.json"), "names 'manifest.json'"),
    ],
)
def test_what_is_no_manifest_of_this_format_is_refused(text, problem) -> None:
    with pytest.raises(ValueError, match=problem):
        decode_manifest(text)


def test_cheap_snapshots_are_taken_as_often_as_a_loss_would_otherwise_hurt() -> None:
    assert interval(0.02, 0.01, 1) * 0.01 == pytest.approx(REDONE_SECONDS, rel=0.01)
    assert interval(0.3, 0.01, 1) * 0.01 == pytest.approx(0.3 / SHARE_OF_TIME, rel=0.01)


def test_no_snapshot_is_taken_before_young_would_take_it() -> None:
    cost, step = 1e-4, 0.001

    assert interval(cost, step, 64) * step == pytest.approx(
        math.sqrt(2 * cost * NODE_SECONDS / 64), rel=0.01
    )


def test_a_run_that_is_lost_often_is_saved_as_often_as_that_asks_for() -> None:
    rare, often = interval(0.002, 0.01, 3), interval(0.002, 0.01, 3, lifetime=60.0)
    dear = interval(0.3, 0.01, 3, lifetime=60.0)

    assert rare * 0.01 == pytest.approx(REDONE_SECONDS, rel=0.01)
    assert often == 100  # no more often than once a second
    assert dear * 0.01 == pytest.approx(math.sqrt(2 * 0.3 * 60.0), rel=0.01)
    assert interval(0.002, 0.01, 3, lifetime=1e6) == rare


@pytest.mark.parametrize(
    ("used", "cores", "part"), [(1.0, 2, 1.0), (1.0, 8, 0.25), (7.0, 8, 1.0), (9.0, 2, 1.0)]
)
def test_a_writer_costs_more_the_fewer_cores_are_free(used, cores, part) -> None:
    assert estimate_displaced(0.4, used, cores) == pytest.approx(0.4 * part)


@pytest.mark.parametrize("cost", [0.001, 0.1, 1.0, 10.0, 100.0])
@pytest.mark.parametrize("step", [0.001, 0.3, 60.0])
@pytest.mark.parametrize("nodes", [1, 8, 64])
def test_snapshots_never_take_a_larger_share_of_the_time(cost, step, nodes) -> None:
    assert cost <= SHARE_OF_TIME * interval(cost, step, nodes) * step * (1 + 1e-9)


def test_more_nodes_are_saved_more_often_and_never_every_zero_iterations() -> None:
    assert interval(1e-4, 0.1, 64) < interval(1e-4, 0.1, 1)
    assert interval(0.0, 0.0, 1) == 1


def test_a_chosen_time_between_snapshots_is_kept_whatever_they_cost() -> None:
    assert interval(0.3, 0.01, 1, most=2.0) == 200
    assert interval(0.3, 0.01, 1, most=0.0) == 1
    assert interval(0.02, 0.01, 1, most=1e6) == interval(0.02, 0.01, 1)


def test_the_newest_two_and_each_trainings_end_are_kept() -> None:
    ends = [manifest(1, 30, final=True), manifest(2, 20, final=True)]
    later = [manifest(3, 5), manifest(3, 8), manifest(3, 11)]
    older = [manifest(1, 25), manifest(1, 30), manifest(2, 15)]

    assert superfluous([*later, *older, *ends]) == [*older, later[0]]
    assert superfluous([]) == []
    assert superfluous(later[:2]) == []


def test_a_later_attempt_replaces_the_end_of_a_training_that_continued() -> None:
    first, second = manifest(1, 30, final=True), manifest(1, 60, attempt=2, final=True)
    newest = [manifest(2, 5, attempt=2), manifest(2, 8, attempt=2)]

    assert superfluous([first, second, *newest]) == [first]


def test_a_training_resumes_from_its_own_newest_snapshot() -> None:
    end, before = manifest(1, 30, final=True), manifest(1, 25)
    present = [before, manifest(2, 10), end, manifest(2, 20)]

    assert for_training(present, 1) == [end, before]
    assert [one.iteration for one in for_training(present, 2)] == [20, 10]
    assert for_training(present, 3) == []
    assert for_training([], 1) == []


def test_copies_of_one_iteration_that_differ_are_tried_in_the_given_order() -> None:
    # By chance, an order that hashing decides is this one once in 40,320.
    copies = [replace(manifest(), files=(SnapshotFile("trainer.npz", 10, n),)) for n in range(8)]

    assert for_training([manifest(iteration=5), *copies, *copies], 1)[:8] == copies


def test_trainings_after_the_one_that_a_later_attempt_was_in_begin_again() -> None:
    present = [manifest(1, 30, final=True), manifest(2, 20), manifest(1, 45, attempt=2)]

    assert [one.iteration for one in for_training(present, 1)] == [45, 30]
    assert for_training(present, 2) == []
