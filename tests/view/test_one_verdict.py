"""Made-up runs: every view of an ended one shows the same conclusion, at any time."""

from __future__ import annotations

import json
import math
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from html import unescape
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workbench.analysis.conclusion import ensure_conclusion
from workbench.analysis.step_breakdown import read_breakdown
from workbench.cli.listing import runs_json
from workbench.core.run.metrics import last_value
from workbench.core.run.model import Run, RunKind, RunState, RunWish
from workbench.core.run.rank_protocol import Batch, Sample
from workbench.pages import operations
from workbench.pages.feed import Feed
from workbench.pages.messages import full_run_message, steps_message
from workbench.pages.protocol import RUN_TYPE, SavedRunMessage
from workbench.store import Store
from workbench.view.html import sentence as html_of
from workbench.view.run_output import kept_bundle
from workbench.view.tables.listing import comparison_table, runs_table, verdict_lines
from workbench.view.text import number

RUN = "261121-003229-aaaa"
SENT = Path(__file__).parents[2] / "extension/src/run/__tests__/verdict.json"
SECONDS = st.floats(1e-3, 0.1)


@dataclass(frozen=True)
class Made:
    """A run: for each rank its losses, for each of its windows the parts of a step."""

    losses: list[list[float]]
    windows: list[list[dict[str, float]]]
    nodes: int
    state: RunState


@st.composite
def made(draw: st.DrawFn) -> Made:
    ranks, amount = draw(st.integers(1, 3)), draw(st.integers(1, 500))
    wave = draw(st.floats(0.01, 10))
    losses = [
        [wave * (2 + math.sin(i * (rank + 1))) for i in range(amount)] for rank in range(ranks)
    ]
    part = st.fixed_dictionaries(
        dict.fromkeys(("compute", "communication", "data", "other"), SECONDS)
    )
    windows = draw(st.lists(st.lists(part, min_size=6, max_size=6), min_size=ranks, max_size=ranks))
    state = draw(st.sampled_from([RunState.FINISHED, RunState.STOPPED, RunState.FAILED]))
    return Made(losses, windows, draw(st.integers(1, ranks)), state)


def samples(run: Made, rank: int) -> Iterator[Sample]:
    printed = {"nbytes": 1e6, "calls": 1.0, "batch": 32.0, "leader": float(rank % run.nodes)}
    for iteration, loss in enumerate(run.losses[rank], 1):
        yield Sample("main/loss", iteration, 0.0, loss)
    for place, parts in enumerate(run.windows[rank], 1):
        yield from (Sample(f"step/{name}", 10 * place, 0.0, s) for name, s in parts.items())
    yield from (Sample(f"exchange/{name}", 10, 0.0, value) for name, value in printed.items())


def keep(store: Store, run: Made, name: str = "fit", id_: str = RUN) -> Run:
    store.wish_run(RunWish(id_, name, RunKind.CELL, "pass", created=1.0))
    for rank in range(len(run.losses)):
        store.reports.add_batches([Batch(id_, rank, 1, tuple(samples(run, rank)))])
    store.put_run_fact(
        id_, state=run.state, ranks=len(run.losses), started=1.0, ended=9.0, iteration=60, epoch=2.0
    )
    return store.run(id_)


def rows(store: Store) -> dict[str, str]:
    """Return a run's column of the comparison."""
    return {row[0]: row[1] for row in comparison_table(store, [store.run(RUN)], 9.0).rows}


def looks(path: Path) -> dict[str, Any]:
    """Return what each view says of the run, read by a store of its own."""
    with Store(path) as store:
        bundle = kept_bundle(store, store.run(RUN), 9.0)
        feed = Feed(store, RUN)
        while not feed.ended:
            feed.read(9.0)
        saved = msgspec.convert(bundle[RUN_TYPE], SavedRunMessage).saved
        sent, rest = feed.run_message(9.0), operations.run(store, RUN)
        (listed,) = (
            one
            for one in json.loads(runs_json(store, store.runs(), with_source=False))
            if one["wish"]["id"] == RUN
        )
        return {
            "verdicts": [
                ensure_conclusion(store, store.run(RUN)).says, saved.run.verdict,
                saved.steps.says, sent.verdict, feed.steps_message().says,
                rest.verdict, tuple(listed["verdict"]),
                full_run_message(store, store.run(RUN), 9.0).verdict,
            ],
            "values": [
                saved.run.values, sent.values, rest.values,
                {name: listed["final_values"][name] for name in sent.values},
            ],
            "steps": [saved.run.step, sent.step, rest.step],
            "slowest": [saved.steps.slowest, feed.steps_message().slowest],
            "text": bundle["text/plain"],
            "html": bundle["text/html"],
            "lines": verdict_lines(store, [store.run(RUN)]),
            "shown": [
                runs_table(store, [store.run(RUN)], 9.0).rows[0][-1], rows(store)["main/loss"],
            ],
        }  # fmt: skip


def check(seen: dict[str, Any], run: Made) -> None:
    """Hold that all of it is the same, and the last value what the ranks reported last."""
    (says, *others), (values, *more) = seen["verdicts"], seen["values"]
    loss = last_value((len(one), one[-1]) for one in run.losses)

    assert says
    assert all(one == says for one in others)
    assert all(one == values for one in more)
    assert len({msgspec.json.encode(one) for one in seen["steps"]}) == 1
    assert len(set(seen["slowest"])) == 1
    assert values["main/loss"] == loss
    assert seen["lines"] == [f"fit: {' '.join(says)}"]
    assert seen["shown"] == [f"main/loss {number(loss)}", number(loss)]
    for sentence in says:
        assert sentence in seen["text"]
        assert html_of(sentence) in seen["html"]
    picture = unescape(seen["html"]).partition('alt="')[2].partition('"')[0]
    assert f" {number(loss)} " in picture.partition(";")[0]
    assert f"Last values: main/loss {number(loss)}" in seen["text"]


@settings(max_examples=10, deadline=None)
@given(made(), made())
def test_all_views_of_an_ended_run_say_the_same_before_and_after_a_reload(run, later) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "store.sqlite3"
        with Store(path) as store:
            keep(store, run)
        first = looks(path)

        with Store(path) as store:  # what comes afterwards, and what comes late
            keep(store, later, "next", "261121-003229-bbbb")
            late = (Sample("main/loss", 900, 0.0, 7.0), Sample("step/compute", 900, 0.0, 9.0))
            store.reports.add_batches([Batch(RUN, 0, 2, late)])
        second = looks(path)

    check(first, run)
    check(second, run)
    assert {**second, "html": "", "text": ""} == {**first, "html": "", "text": ""}


def test_the_page_is_sent_what_its_own_tests_show() -> None:
    """``extension/src/run/__tests__/verdict.spec.ts`` holds that it is shown verbatim."""
    part = {"compute": 0.02, "communication": 0.02, "data": 0.001, "other": 0.001}
    late = {**part, "compute": 0.034, "communication": 0.006}
    run = Made([[2.0, 1.0], [2.0, 1.5]], [[part] * 6, [late] * 6], 2, RunState.FINISHED)
    with tempfile.TemporaryDirectory() as folder, Store(Path(folder) / "s.sqlite3") as store:
        keep(store, run)
        sent = operations.run(store, RUN)
        steps = steps_message(read_breakdown(store, store.run(RUN)))

    printed = {name: getattr(sent, name) for name in ("values", "verdict", "step")}
    written = json.loads(msgspec.json.encode({"run": printed, "steps": steps}))
    assert written == json.loads(SENT.read_text())


@pytest.mark.parametrize(
    ("latest", "last"),
    [
        ([(5, 1.0), (5, 3.0), (5, 9.0)], 3.0),
        ([(5, 1.0), (5, 3.0)], 2.0),
        ([(4, 9.0), (5, 1.0)], 1.0),
        ([(5, math.nan), (5, 1.0)], 1.0),
    ],
)
def test_a_last_value_is_the_median_of_the_last_iteration(latest, last) -> None:
    assert last_value(latest) == last


def test_a_last_value_that_is_no_number_on_any_rank_is_none() -> None:
    assert math.isnan(last_value([(5, math.nan), (5, math.inf)]))
