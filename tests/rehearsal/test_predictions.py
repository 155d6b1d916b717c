"""Predictions of training on slow links are compared with the same training, measured.

Times are what this is about, so they are compared: medians of steps that mostly sleep.
"""

from __future__ import annotations

import json
import os
import statistics
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from benchmarks.place import Place
from benchmarks.shaped import ShapedHosts, shape
from tests.rehearsal.hosts import Hosts, why_not
from workbench.analysis.prediction_record import here
from workbench.analysis.predictions import find_observed_run
from workbench.analysis.step_breakdown import read_breakdown
from workbench.core.performance.bandwidth import (
    RESULT_STREAM,
    Measurement,
    RemarkKind,
    judge,
    measurement_json,
    measurement_of,
)
from workbench.core.performance.exchange_model import Codec
from workbench.core.performance.scaling import Timing, fit
from workbench.core.performance.step_verdict import Cause
from workbench.core.performance.step_verdict import judge as judge_run
from workbench.core.performance.what_if import Change, ObservedRun, predict_seconds
from workbench.core.run.model import Run, RunKind, RunState, RunWish
from workbench.core.run.rank_protocol import Batch, Chunk, Sample
from workbench.core.world.world import RankFact
from workbench.store import Store

pytestmark = [
    pytest.mark.root, pytest.mark.mpi, pytest.mark.weekly, pytest.mark.timeout(400),
]  # fmt: skip

NODES, MBITS, FASTER, SLOWER = 4, 100.0, 10, 0.4
COMPUTE = 0.3
NEAR = 0.1
HERE = Path(__file__).parent

SLOW_LINKS = [
    {"name": "naive", "nodes": 2, "steps": 12, "compute": COMPUTE},
    {"name": "fp16", "nodes": 2, "steps": 12, "compute": COMPUTE, "compress": "fp16"},
    {"name": "powersgd", "nodes": 2, "steps": 12, "compute": COMPUTE, "compress": "powersgd"},
    {"name": "late", "nodes": 3, "steps": 6, "compute": COMPUTE, "compress": "powersgd",
     "late": COMPUTE},
    *({"name": f"ours {nodes}", "nodes": nodes, "steps": 8, "compute": COMPUTE,
       "compress": "none"} for nodes in (1, 2, 3, 4)),
]  # fmt: skip
FAST_LINKS = [{"name": "fast", "nodes": 2, "steps": 12, "compute": COMPUTE}]


@pytest.fixture(scope="module")
def shaped() -> Iterator[ShapedHosts]:
    """Four hosts with slow links."""
    if reason := why_not():
        (pytest.fail if os.environ.get("CI") else pytest.skip)(reason)
    with Place() as place, Hosts(NODES) as hosts:
        for host in hosts:
            shape(host, MBITS)
        yield ShapedHosts(hosts, place, MBITS)


@pytest.fixture(scope="module")
def links(shaped) -> Measurement:
    """What is between the hosts while all links are alike."""
    return measurement_of(shaped.mpi(HERE / "measuring.py", nodes=NODES)[0]["measurement"])


@pytest.fixture(scope="module")
def trained(shaped, links) -> dict[str, list[dict[str, Any]]]:
    """What each rank found, by the way in which it trained."""
    found = shaped.mpi(HERE / "training.py", json.dumps(SLOW_LINKS), nodes=NODES)
    for host in shaped.hosts:
        shape(host, FASTER * MBITS)
    found += shaped.mpi(HERE / "training.py", json.dumps(FAST_LINKS), nodes=2)
    for host in shaped.hosts:
        shape(host, MBITS)
    return {way: [one for one in found if one["way"] == way] for way in {f["way"] for f in found}}


@pytest.fixture
def store(tmp_path) -> Iterator[Store]:
    with Store(tmp_path / "store.sqlite3") as store:
        yield store


@pytest.fixture
def kept(store, trained, links) -> Callable[[str], Run]:
    """Keep a training as if it were a run, with the measurement of its links before it."""
    number = 0

    def wish(name: str, kind: RunKind = RunKind.CELL) -> RunWish:
        nonlocal number
        number += 1
        made = RunWish(f"260101-00000{number}-aaaa", name, kind, "pass", created=float(number))
        return store.wish_run(made)

    survey = Chunk(RESULT_STREAM, 0.0, measurement_json(links))
    store.reports.add_batches([Batch(wish("links", RunKind.MEASUREMENT).id, 0, 1, (), (survey,))])
    names = links.survey.nodes

    def keep(way: str) -> Run:
        run, found = wish(way).id, trained[way]
        store.put_ranks("default", [RankFact(1, n, names[n], 1, n) for n in range(len(found))])
        for one in found:
            samples = tuple(Sample(name, step, 0.0, value) for name, step, value in one["samples"])
            store.reports.add_batches([Batch(run, one["rank"], 1, samples)])
        store.put_run_fact(run, generation=1, ranks=len(found), state=RunState.FINISHED)
        return store.run(run)

    return keep


def took(trained: dict[str, list[dict[str, Any]]], way: str) -> float:
    """Return the seconds of a step, by a clock that knows nothing of its parts."""
    return statistics.fmean(one["took"] for one in trained[way])


def seen(store: Store, run: Run) -> ObservedRun:
    observed = find_observed_run(store, run)
    assert observed is not None
    return observed


def test_each_prediction_of_a_verdict_comes_true(store, kept, trained) -> None:
    naive = seen(store, kept("naive"))
    verdict = judge_run(naive)
    remedies = {one.do: one for one in verdict.remedies}

    faster = Change(bandwidth=FASTER * naive.link.bandwidth)
    predicted = {
        "fp16": remedies["--compress fp16"].seconds,
        "powersgd": remedies["--compress powersgd"].seconds,
        "fast": predict_seconds(naive, faster),
    }

    assert verdict.cause is Cause.NETWORK
    assert {way: took(trained, way) for way in predicted} == pytest.approx(predicted, rel=NEAR)


def test_what_others_would_give_a_compressed_run_comes_true(store, kept, trained) -> None:
    half = seen(store, kept("fp16"))
    codings = {one.codec: one for one in half.codings}

    predicted = {
        "powersgd": predict_seconds(half, Change(coding=codings[Codec.POWERSGD])),
        "ours 2": predict_seconds(half, Change(coding=codings[Codec.NONE])),
    }

    assert half.coding.codec is Codec.FP16
    assert half.coding.ratio == pytest.approx(0.5, rel=0.02)
    assert {way: took(trained, way) for way in predicted} == pytest.approx(predicted, rel=NEAR)


def test_a_rank_that_was_slowed_is_named(store, kept) -> None:
    run = kept("late")

    anatomy = read_breakdown(store, run)

    name = store.ranks("default", 1)[1].host
    assert anatomy.slowest == 1
    assert anatomy.says[0].startswith(f"Straggler: rank 1 on {name} computes for ")
    assert "2.0 times as long as the other" in anatomy.says[0]


def test_one_and_two_nodes_predict_three_and_four(store, kept, trained) -> None:
    steps = {nodes: took(trained, f"ours {nodes}") for nodes in (1, 2, 3, 4)}
    two = seen(store, run := kept("ours 2"))

    # An epoch of twelve steps of one node; the same, from the parts of a step on two.
    scaling = fit([Timing(nodes, 12 / nodes * steps[nodes]) for nodes in (1, 2)])
    by_parts = {
        one.doing.nodes: one for one in here(store, run, two)
        if one.doing.ours and one.doing.codec is Codec.NONE
    }  # fmt: skip

    for nodes in (3, 4):
        epoch = scaling.epoch(nodes)
        assert epoch.seconds == pytest.approx(12 / nodes * steps[nodes], rel=NEAR)
        assert epoch.holds(12 / nodes * steps[nodes])
        assert by_parts[nodes].seconds == pytest.approx(steps[nodes], rel=NEAR)


def test_the_link_that_was_slowed_is_named(shaped, links) -> None:
    shape(shaped.hosts[2], SLOWER * MBITS)
    found = shaped.mpi(HERE / "measuring.py", nodes=NODES)[0]["measurement"]
    shape(shaped.hosts[2], MBITS)

    now = measurement_of(found).survey
    remarks = judge(now, links.survey)
    slow = [one for one in remarks if one.kind in (RemarkKind.SLOW, RemarkKind.LOST)]

    third = (now.nodes[2],)
    assert {(one.kind, one.nodes) for one in slow} == {
        (RemarkKind.SLOW, third),
        (RemarkKind.LOST, third),
    }
    assert all(one.share == pytest.approx(SLOWER, rel=NEAR) for one in slow)
