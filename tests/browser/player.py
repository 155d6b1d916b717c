"""Plays a supervisor for the browser tests: facts without ranks, at once and the same every time.

`serve` answers the wishes of one store until it is ended; `answer` does what each line of its input
says, a list in JSON, and answers with another line; the other words write or read once.
Options of a run are its parameters: `iterations`, `pace` (seconds between two reports), `stride`
(iterations a report), `points` (so many are there from the beginning), `ranks`, `saves` (whether it
has a snapshot when it is stopped), `fails` (after so many iterations its first attempt fails; the
next one does `redo` again).
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import math
import random
import signal
import sys
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace

import measurements

from tests.batches import batch_of
from workbench.core.cluster.model import DEFAULT_CLUSTER, ClusterFact, ClusterState, ResizeAt
from workbench.core.run.metrics import is_measured
from workbench.core.run.model import Run, RunKind, RunState, RunWish
from workbench.core.run.rank_protocol import (
    Batch,
    Chunk,
    EventReport,
    Sample,
    SnapshotSaved,
    TrainingResumed,
)
from workbench.core.run.run_options import RunOptions
from workbench.core.world.world import RankFact
from workbench.errors import Unknown
from workbench.requests.run import new_run_id
from workbench.requests.supervisor import LOCK_NAME
from workbench.store import Store
from workbench.store.paths import cluster_directory, snapshot_directory

LOOK_SECONDS = 0.02
MEASURING_SECONDS = 0.15  # each step
HOST = "node-0"
POINTS_AT_ONCE = 50_000
# Long ago, so that a list names the day and not the hour.
LONG_AGO = 1_768_471_200.0  # 15 January 2026, 10:00 UTC
FIXED = {"digits": ("260115-100000-aaaa", 0.1), "digits slow": ("260115-100500-bbbb", 0.03)}
FAILED = "260115-101000-cccc"
ITERATIONS, RANKS, STRIDE = 400, 4, 10
# What each rank tells of its gradients, and of what they say of the batch.
CARRIED = {
    "codec powersgd": 1.0, "nbytes": 1e8, "calls": 1.0, "batch": 128.0,
    "wire": 2.1e6, "whole": 0.006, "error": 0.031, "cost powersgd": 2e-11, "small": 0.02,
}  # fmt: skip
NOISE = {"gradient_noise/signal": 0.5, "gradient_noise/noise": 1000.0, "gradient_noise/steps": 60.0}
TRACEBACK = """\
Traceback (most recent call last):
  File "<cell>", line 7, in <module>
    loss.backward()
ValueError: loss is nan"""


class Player:
    """One cluster and its runs, each in a thread of its own."""

    def __init__(self) -> None:
        self._quit = threading.Event()
        self._playing = dict[str, threading.Thread]()
        # The process that holds the lock is the supervisor: no real one is started.
        self._lock = (cluster_directory(DEFAULT_CLUSTER) / LOCK_NAME).open("wb")
        fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def serve(self) -> None:
        """Answer wishes until a signal comes."""
        signal.signal(signal.SIGTERM, lambda *_: self._quit.set())
        print("ready", flush=True)
        with Store() as store:
            while not self._quit.wait(LOOK_SECONDS):
                self._answer(store)
        for thread in self._playing.values():
            thread.join()

    def _answer(self, store: Store) -> None:
        wish, fact = store.cluster_wish(DEFAULT_CLUSTER), store.cluster_fact(DEFAULT_CLUSTER)
        state = ClusterState.READY if wish and wish.up else ClusterState.DOWN
        ranks = wish.ranks if wish and wish.up else 0
        if (state, ranks) != (fact.state, fact.ranks):
            put_cluster(store, state, ranks, fact.generation + 1)
        for run in store.list_unfinished(DEFAULT_CLUSTER) if ranks else []:
            if run.execution not in self._playing:
                thread = threading.Thread(target=self._play, args=(run.id,))
                self._playing[run.execution] = thread
                thread.start()

    def _play(self, identity: str) -> None:
        """A training whose loss falls, until it is done or is stopped."""
        with Store() as store:
            run = store.run(identity)
            if run.wish.kind is RunKind.MEASUREMENT:
                self._measure(store, run)
                return
            options = dict(run.wish.options.parameters)
            total, pace = int(options.get("iterations", 200)), float(options.get("pace", 0.02))
            ranks, stride = int(options.get("ranks", 2)), int(options.get("stride", 1))
            points = 0 if run.fact.attempt > 1 else int(options.get("points", 0))
            first = begin(store, run, ranks, total, points)
            if run.fact.attempt > 1:
                first = resume(store, run) + 1
            for i in range(first, total + 1, stride):
                if store.run(identity).wish.stop or self._quit.wait(pace):
                    if options.get("saves"):
                        done = store.run(identity).fact.iteration
                        save(store, run, done - int(options.get("redo", 0)))
                    end(store, run, RunState.STOPPED)
                    return
                report(store, run, range(i, i + stride), ranks, f"iteration {i}\n")
                if run.fact.attempt == 1 and 0 < options.get("fails", 0) <= i:
                    retry(store, run, i, i - int(options.get("redo", 0)))
                    return
            end(store, run, RunState.FINISHED)

    def _measure(self, store: Store, run: Run) -> None:
        """A measurement of four nodes, one of which has become slow."""
        begin(store, run, len(measurements.NODES), measurements.STEPS, 0)
        for step in range(1, measurements.STEPS + 1):
            if store.run(run.id).wish.stop or self._quit.wait(MEASURING_SECONDS):
                end(store, run, RunState.STOPPED)
                return
            store.put_run_fact(run.id, iteration=step)
        measurements.put(store, run.id, measurements.measurement(time.time(), slow="node-3"))
        end(store, run, RunState.FINISHED)


def put_cluster(store: Store, state: ClusterState, ranks: int, generation: int) -> None:
    """Write the cluster's state."""
    store.put_cluster_fact(
        ClusterFact(DEFAULT_CLUSTER, state, ranks, generation, "", 1, "", time.time())
    )
    facts = [RankFact(generation, rank, HOST, 4200 + rank, rank) for rank in range(ranks)]
    if facts:
        store.put_ranks(DEFAULT_CLUSTER, facts)


def begin(store: Store, run: Run, ranks: int, total: int, points: int) -> int:
    """Write that a run is running, with its first points; return what comes next."""
    given = points // (2 * ranks)
    store.put_run_fact(
        run.id, state=RunState.RUNNING, ranks=ranks, generation=1, started=time.time(),
        iterations_total=total, iteration=0,
    )  # fmt: skip
    for start in range(1, given + 1, POINTS_AT_ONCE):
        report(store, run, range(start, min(start + POINTS_AT_ONCE, given + 1)), ranks)
    return given + 1


_sequences: Counter[tuple[str, int]] = Counter()


def report(store: Store, run: Run, span: range, ranks: int, text: str = "") -> None:
    """Write what all ranks report of a span of iterations."""
    now = time.time()
    batches = []
    for rank in range(ranks):
        _sequences[run.execution, rank] += 1
        samples = [
            Sample(name, i, now, value)
            for i in span
            for name, value in (
                ("main/loss", math.exp(-i / 300) + rank / 50),
                ("main/accuracy", 1 - math.exp(-i / 200) - rank / 100),
            )
        ]
        chunks = (Chunk("stdout", now, text),) if text else ()
        sequence = _sequences[run.execution, rank]
        batches.append(Batch(run.execution, rank, sequence, tuple(samples), chunks))
    store.reports.add_batches(batches)
    store.put_run_fact(run.id, iteration=span[-1])


def save(store: Store, run: Run, iteration: int) -> None:
    """Write that a snapshot was saved."""
    folder = snapshot_directory(run.id) / "newest"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "manifest.json").write_text("{}")
    _add(store, run, 0, [EventReport(SnapshotSaved(iteration), time.time())])


def resume(store: Store, run: Run) -> int:
    """Write that the ranks continue from the newest snapshot, and return its iteration."""
    now, iteration = time.time(), store.attempts.newest_snapshot(run.id)
    _add(store, run, 0, [EventReport(TrainingResumed(iteration), now)])
    store.put_run_fact(run.id, resumed_at=iteration, resumed=now, iteration=iteration)
    return iteration


def retry(store: Store, run: Run, iteration: int, snapshot: int) -> None:
    """Write that a rank was killed after so many iterations, and that the run is tried again."""
    save(store, run, snapshot)
    failure = f"rank 1 on {HOST} was killed by signal 9"
    past = replace(
        store.run(run.id).fact, state=RunState.LOST, ended=time.time(), iteration=iteration,
        message=f"Rank 1 on {HOST} was lost (killed by signal 9). Retry 1 of 3.", failure=failure,
    )  # fmt: skip
    store.attempts.continue_run(past, past.message, failed_at=iteration)


def resize_after(ranks: str) -> None:
    """Request another size, after the present run."""
    with Store() as store:
        store.wish_cluster(
            DEFAULT_CLUSTER, up=True, ranks=int(ranks), oversubscribe=False, resize_at=ResizeAt.END
        )


def _add(store: Store, run: Run, rank: int, news: list[Sample | EventReport]) -> None:
    _sequences[run.execution, rank] += 1
    sequence = _sequences[run.execution, rank]
    store.reports.add_batches([batch_of(run.execution, rank, sequence, news)])


def end(store: Store, run: Run, state: RunState, **changes: object) -> None:
    """Write that a run is over."""
    store.put_run_fact(run.id, state=state, **{"ended": time.time(), **changes})


def ask(name: str, **options: object) -> str:
    """Request a run, and return its id."""
    wish = RunWish(
        new_run_id(time.time()), name, RunKind.CELL, "pass",
        options=RunOptions(parameters=tuple(options.items())), created=time.time(),
    )  # fmt: skip
    with Store() as store:
        if not (wanted := store.cluster_wish(DEFAULT_CLUSTER)) or not wanted.up:
            store.wish_cluster(DEFAULT_CLUSTER, up=True, ranks=2, oversubscribe=False)
        return store.wish_run(wish).id


def _has_run(store: Store, run: str) -> bool:
    return store.one("SELECT 1 FROM runs WHERE id = ?", (run,)) is not None


def write_fixed() -> dict[str, str]:
    """Write two finished runs and a failed one that are the same every time."""
    with Store() as store:
        for number, (name, (identity, rate)) in enumerate(FIXED.items()):
            created = LONG_AGO + 300 * number
            if not _has_run(store, identity):
                run = _create_run(store, identity, name, created, {"rate": rate, "batch": 64})
                _curves(store, run, random.Random(number), rate)
                end(store, run, RunState.FINISHED, iteration=ITERATIONS, ended=created + 83)
        if not _has_run(store, FAILED):
            created = LONG_AGO + 600
            run = _create_run(store, FAILED, "digits broken", created, {})
            report(store, run, range(1, 41), 2, "iteration 40\n")
            end(
                store, run, RunState.FAILED, ended=created + 9, failed_rank=1, failed_host=HOST,
                error=TRACEBACK, message=f"Rank 1 on {HOST} failed: ValueError: loss is nan.",
                failure="ValueError: loss is nan",
            )  # fmt: skip
    return {name: identity for name, (identity, _) in FIXED.items()} | {"digits broken": FAILED}


def _create_run(store: Store, identity: str, name: str, created: float, parameters: dict) -> Run:
    store.wish_run(
        RunWish(
            identity, name, RunKind.CELL, "pass", cluster="training",
            options=RunOptions(parameters=tuple(parameters.items())), created=created,
        )
    )  # fmt: skip
    store.put_run_fact(
        identity, state=RunState.RUNNING, ranks=RANKS, generation=1, started=created + 2,
        iterations_total=ITERATIONS, iteration=1,
    )  # fmt: skip
    return store.run(identity)


def _curves(store: Store, run: Run, chance: random.Random, rate: float) -> None:
    def noisy(value: float, amount: float) -> float:
        return value * (1 + chance.gauss(0, amount))

    def values(rank: int, i: int) -> Iterator[tuple[str, float]]:
        decay = math.exp(-i * rate / 12)
        yield "main/loss", noisy(0.12 + 2.2 * decay + 0.05 * rank * decay, 0.08)
        yield "main/accuracy", min(1.0, noisy(0.97 - 0.85 * decay, 0.02))
        if i % 20 == 0:
            yield "validation/main/loss", noisy(0.2 + 2.1 * decay, 0.02)
            yield "validation/main/accuracy", min(1.0, noisy(0.95 - 0.85 * decay, 0.01))
        if i % 100 == 0:
            late = 0.004 if rank == 2 else 0.0
            yield "step/compute", 0.021 + late
            yield "step/communication", 0.007 - late
            yield "step/data", 0.003
            yield "step/other", 0.001
            for what, value in CARRIED.items():
                yield f"exchange/{what}", value
            yield from NOISE.items()

    for rank in range(RANKS):
        chunks = (Chunk("stdout", run.fact.started, f"rank {rank} has read 449 images\n"),)
        store.reports.add_batches([Batch(run.id, rank, 1, (), chunks)])
    # The ranks in turn, as they report.
    for sequence, first in enumerate(range(1, ITERATIONS + 1, STRIDE), 2):
        batches = []
        for rank in range(RANKS):
            samples = tuple(
                Sample(name, i, run.fact.started + i / 5, value)
                for i in range(first, first + STRIDE)
                for name, value in values(rank, i)
            )
            batches.append(Batch(run.id, rank, sequence, samples))
        store.reports.add_batches(batches)


# Runs that are hard to draw well: name, ranks, what ranks write, and whether they report.
ODD = {
    "converged": ("260115-110000-aaaa", 4, ""),
    "hello": ("260115-110100-bbbb", 1, "hello\n"),
    "hellos": ("260115-110200-cccc", 4, "hello of rank {rank}\n"),
    "bar": ("260115-110300-dddd", 2, "\r".join(f" {n:3} % |{'#' * (n // 5)}" for n in range(101))),
}
LINK = "260115-110400-eeee"


def write_odd() -> dict[str, str]:
    """Write finished runs that are hard to draw well: noise, a constant, prints, two nodes."""
    with Store() as store:
        for number, (name, (identity, ranks, text)) in enumerate(ODD.items()):
            if not _has_run(store, identity):
                created = LONG_AGO + 3600 + 60 * number
                run = _create_run(store, identity, name, created, {})
                stream = "stderr" if name == "bar" else "stdout"
                for rank in range(ranks):
                    chunk = Chunk(stream, created + 3, text.format(rank=rank))
                    chunks = (chunk,) if text else ()
                    samples = (
                        () if text else tuple(_converged_samples(random.Random(rank), created))
                    )
                    store.reports.add_batches([Batch(run.id, rank, 1, samples, chunks)])
                total = 0 if text else 2000
                end(
                    store, run, RunState.FINISHED, ranks=ranks, iteration=total,
                    iterations_total=total, ended=created + 5,
                )  # fmt: skip
        if not _has_run(store, LINK):
            created = LONG_AGO + 3900
            wish = RunWish(
                LINK, "bandwidth", RunKind.MEASUREMENT, "", cluster="training", created=created
            )
            store.wish_run(wish)
            found = measurements.measurement(LONG_AGO, nodes=measurements.NODES[:2])
            measurements.put(store, LINK, found)
            end(store, store.run(LINK), RunState.FINISHED, started=LONG_AGO, ended=LONG_AGO + 62)
    return {name: identity for name, (identity, *_) in ODD.items()} | {"link": LINK}


def _converged_samples(chance: random.Random, created: float) -> Iterator[Sample]:
    for i in range(1, 2001):
        loss = (2.3 * math.exp(-i / 40) + 0.01) * math.exp(chance.gauss(0, 0.7))
        yield Sample("main/loss", i, created + 2 + i / 1000, loss)
        yield Sample("main/accuracy", i, created + 2 + i / 1000, 1.0)


def facts(name: str) -> dict[str, object]:
    """Return what the store has of a run."""
    with Store() as store:
        run = store.run(name)
        rows = store.reports.points(run.id, limit=10_000_000)
        return {
            "id": run.id,
            "name": run.wish.name,
            "state": run.fact.state,
            "iteration": run.fact.iteration,
            "points": sum(not is_measured(row.name) for row in rows),
        }


def state(name: str) -> str:
    """Return the state of a run, or nothing while no page has asked for it."""
    with Store() as store, contextlib.suppress(Unknown):
        return store.run(name).fact.state
    return ""


def measured() -> str:
    """Write that the cluster was measured a day ago, when all nodes were well; return the run."""
    with Store() as store:
        now = time.time() - 86_400
        wish = RunWish(new_run_id(now), "bandwidth", RunKind.MEASUREMENT, "", created=now)
        run = store.run(store.wish_run(wish).id)
        measurements.put(store, run.id, measurements.measurement(now))
        end(store, run, RunState.FINISHED, started=now - 62, ended=now, ranks=4)
        return run.id


def stop() -> None:
    """Request that all runs stop."""
    with Store() as store:
        for run in store.list_unfinished(DEFAULT_CLUSTER):
            store.wish_stop(run.id)


def put_up(up: float) -> None:
    """Request that the cluster is up, or down."""
    with Store() as store:
        store.wish_cluster(DEFAULT_CLUSTER, up=bool(up), ranks=2, oversubscribe=False)


def bundle(name: str) -> dict[str, object]:
    """Return what stays of a run in a saved notebook."""
    from workbench.view.run_output import kept_bundle

    with Store() as store:
        return kept_bundle(store, store.run(name), time.time())


WORDS: dict[str, Callable[..., object]] = {
    "ask": ask,
    "fixed": write_fixed,
    "odd": write_odd,
    "facts": facts,
    "state": state,
    "bundle": bundle,
    "measured": measured,
    "stop": stop,
    "cluster": put_up,
    "resize": resize_after,
}


def answer() -> None:
    """Do what each line of the input says, and write a line with what came of it."""
    for line in sys.stdin:
        try:
            said = {"answer": do(*json.loads(line))}
        except Exception:  # noqa: BLE001  # the caller gets the error
            said = {"error": traceback.format_exc()}
        print(json.dumps(said), flush=True)


def do(word: str, *given: str) -> object:
    """Do what a word says; what has "=" in it is an option."""
    options = dict(part.split("=", 1) for part in given if "=" in part)
    arguments = [part for part in given if "=" not in part]
    return WORDS[word](*arguments, **{k: float(v) for k, v in options.items()})


def main() -> None:
    """Do what the command line says."""
    word, *given = sys.argv[1:]
    if word == "serve":
        Player().serve()
    elif word == "answer":
        answer()
    else:
        print(json.dumps(do(word, *given)))


if __name__ == "__main__":
    main()
