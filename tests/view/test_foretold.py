"""Let runs follow each other, and hear what was foretold of the later and learned from both."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from workbench.core.bandwidth import Pair, Survey
from workbench.core.exchange import Link
from workbench.core.measurement import RESULT_STREAM, Measurement, measurement_json
from workbench.core.report import Batch, Chunk
from workbench.core.run import Run, RunState
from workbench.core.step import Shape, Work, step
from workbench.store import Store
from workbench.view.anatomy import anatomy_of
from workbench.view.foretold import correction_of, foretold_sentence

GBIT = 1e9 / 8
LINK = Link(50e-6, 1.38 * GBIT)
WORK = Work(0.2, 98e6, batch=32)


@pytest.fixture
def trained(queue, report, supervisor: Store) -> Callable[..., Run]:
    """Keep what a run on that many nodes would measure, were its network ``off`` times as slow."""
    made: list[str] = []

    def train(name: str, nodes: int, off: float = 1.0, nbytes: float = WORK.nbytes) -> Run:
        work = Work(WORK.compute, nbytes, batch=32)
        moving = off * step(work, Shape(nodes, LINK)).exchange
        run = queue(name)
        for rank in range(nodes):
            report(
                run, rank, step__compute=[0.2], step__communication=[moving],
                step__waiting=[0.0], step__moving=[moving], step__data=[0.0], step__other=[0.0],
                exchange__nbytes=[nbytes], exchange__calls=[1.0],
                exchange__leader=[float(rank)], exchange__batch=[32.0],
            )  # fmt: skip
        made.append(run.id)
        supervisor.put_run_fact(
            run.id, state=RunState.FINISHED, ranks=nodes, iteration=100, iterations_total=100,
            epoch=2.0, epochs_total=2.0,
        )  # fmt: skip
        return supervisor.run(run.id)

    return train


@pytest.fixture
def measured(queue, supervisor: Store) -> Callable[[], None]:
    """Keep a measurement of the links between all nodes."""

    def measure() -> None:
        # The store has forgotten where ranks were, so their host has no name.
        pairs = (Pair("", "b", 50e-6, LINK.bandwidth), Pair("b", "", 50e-6, LINK.bandwidth))
        found = Measurement(Survey(1.0, ("", "b"), pairs, rating=1.44 * GBIT), 2, 1.0)
        chunk = Chunk(RESULT_STREAM, 0.0, measurement_json(found))
        supervisor.add_batches([Batch(queue("link").id, 0, 1, (), (chunk,))])

    return measure


def test_the_first_run_of_its_kind_was_not_foretold(store, trained, measured) -> None:
    measured()

    assert foretold_sentence(store, trained("one", 1)) == ""


def test_a_run_is_held_against_what_the_one_before_foretold(store, trained, measured) -> None:
    measured()
    trained("one", 1)
    run = trained("four", 4)
    took = 1000 * step(WORK, Shape(4, LINK)).total

    said = foretold_sentence(store, run)

    assert said.startswith(f"Foretold from run one on 1 rank: {took:.3g} ms a step")
    assert said.endswith(f"it took {took:.3g} ms, 0 % less.") or said.endswith("0 % more.")
    assert said in anatomy_of(store, run).says


def test_what_came_quite_otherwise_is_said_to_have(store, trained, measured) -> None:
    measured()
    trained("one", 1)

    said = foretold_sentence(store, trained("four", 4, off=2.0))

    assert "more, which is beyond what was thought possible." in said


def test_what_one_run_took_longer_the_next_is_foretold_to(store, trained, measured) -> None:
    measured()
    trained("one", 1)
    first = trained("twoo", 2, off=1.5)
    second = trained("four", 4, off=1.5)
    learned = correction_of(store, first).factor

    assert 1.2 < learned < 1.5
    assert "beyond" not in foretold_sentence(store, trained("eigh", 8, off=learned))
    assert correction_of(store, second).count == 3


def test_another_model_foretells_nothing(store, trained, measured) -> None:
    measured()
    trained("one", 1, nbytes=5e6)

    assert foretold_sentence(store, trained("four", 4)) == ""


def test_without_a_measured_link_nothing_is_foretold(store, trained) -> None:
    trained("one", 1)

    assert foretold_sentence(store, trained("four", 4)) == ""
