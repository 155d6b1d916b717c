"""Unchanged scripts of PyTorch on two real ranks: curves, iterations, step times and Stop."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.supervisor.real import NAME, Table, real_table
from tests.waiting import until
from workbench.analysis.step_breakdown import read_breakdown
from workbench.core.options.table import variables
from workbench.core.run.metrics import EXCHANGE_PREFIX
from workbench.core.run.model import Run, RunState
from workbench.requests.run import ask_stop

pytest.importorskip("torch", reason="torch is an extra that the tests do without")

pytestmark = [pytest.mark.torch, pytest.mark.mpi, pytest.mark.timeout(180)]
LOOPS = Path(__file__).parents[1] / "engine" / "programs" / "torch_loops"


@pytest.fixture(scope="module")
def table() -> Iterator[Table]:
    with real_table() as made:
        yield made


def curve(table: Table, run: Run, name: str, rank: int) -> list[float]:
    """Return what a rank reported under a name, in the order of the iterations."""
    rows = [
        row for row in table.store.reports.points(run.id) if (row.name, row.rank) == (name, rank)
    ]
    assert [row.iteration for row in rows] == [*range(1, len(rows) + 1)]
    return [row.value for row in rows]


def test_a_distributed_training_has_the_curves_that_its_ranks_print(table: Table) -> None:
    run = table.do((LOOPS / "ddp.py").read_text())

    assert run.fact.state is RunState.FINISHED, run.fact.error
    printed = {rank: json.loads(text) for rank, text in table.written(run).items()}
    for rank, said in printed.items():
        assert curve(table, run, "loss", rank) == pytest.approx(said["loss"])
    assert printed[0] != printed[1]
    assert (run.fact.iteration, run.fact.epoch) == (12, 3.0)
    [offered] = [one for one in read_breakdown(table.store, run).says if "not saved" in one]
    state = '{"model": model, "optimizer": optimizer}'
    assert f"`for step in workbench.elastic({state}, data=loader, epochs=…):`" in offered


def test_what_mp_spawn_would_train_in_processes_is_trained_by_the_ranks(table: Table) -> None:
    source = (LOOPS / "launched.py").read_text()

    run = table.do(source)
    refused = table.do(source.replace("(2, 5), nprocs=2", "(4, 5), nprocs=4"))

    assert run.fact.error == ""
    assert [len(curve(table, run, "loss", rank)) for rank in (0, 1)] == [5, 5]
    written = table.written(run)
    assert [f"spawned {rank} of 2" in written[rank] for rank in (0, 1)] == [True, True]
    assert "in place of new processes." in written[0]
    assert "4 processes, and 2 ranks are there; give nprocs=2" in refused.fact.error


def test_processes_that_train_nothing_together_are_started_as_anywhere(table: Table) -> None:
    run = table.do((LOOPS / "workers.py").read_text())

    assert run.fact.error == ""
    assert table.written(run)[0] == "worked 6\n"


def test_what_a_training_on_this_machine_listens_on_is_heard_by_this_machine_alone(
    table: Table,
) -> None:
    run = table.do((LOOPS / "listening.py").read_text())

    assert run.fact.state is RunState.FINISHED, run.fact.error
    said = {rank: json.loads(text) for rank, text in table.written(run).items()}
    for one in said.values():
        assert {address for address, _ in one["found"]} <= {"127.0.0.1", "::1"}
        assert one["second"] in {port for _, port in one["found"]}
    assert said[0]["port"] in {port for _, port in said[0]["found"]}


@pytest.mark.parametrize("communicator", ["", "auto"], ids=["gloo", "our exchange"])
@pytest.mark.parametrize(
    ("loop", "iterations"),
    [("accumulated", 4), ("scaled", 12), ("closure", 12), ("adversarial", 12)],
)
def test_replicas_of_any_loop_have_its_losses_and_stay_alike(
    table: Table, loop: str, iterations: int, communicator: str
) -> None:
    options = (("LOOP", loop), *variables({"communicator": communicator or None}))
    run = table.ended(table.start((LOOPS / "replicas.py").read_text(), environment=options))

    assert run.fact.state is RunState.FINISHED, run.fact.error
    said = {rank: json.loads(text.splitlines()[-1]) for rank, text in table.written(run).items()}
    for rank, mine in said.items():
        for name, losses in mine["curves"].items():
            assert curve(table, run, name, rank) == pytest.approx(losses, rel=1e-6)
    assert (run.fact.iteration, run.fact.epoch) == (iterations, 1.0)
    assert said[0]["weights"] == said[1]["weights"]
    assert said[0]["curves"] != said[1]["curves"]


def test_a_stop_ends_all_ranks_after_the_same_step_and_the_next_run_trains(table: Table) -> None:
    source = (LOOPS / "ddp.py").read_text()
    endless = table.start(source.replace('"EPOCHS", "3"', '"EPOCHS", "1000000"'))
    until(lambda: table.store.run(endless).fact.iteration > 20)

    asked = time.monotonic()
    ask_stop(table.store, endless, NAME)
    run = table.ended(endless)
    seconds = time.monotonic() - asked

    assert run.fact.state is RunState.STOPPED, run.fact.error
    endings = table.store.reports.endings(run.id)
    assert {one.iteration for one in endings.values()} == {run.fact.stopped_at}
    assert {one.error for one in endings.values()} == {""}  # at a boundary, not interrupted
    assert len(curve(table, run, "loss", 0)) == len(curve(table, run, "loss", 1))
    assert seconds < run.wish.options.grace
    assert table.do(source).fact.iteration == 12


def test_steps_are_divided_into_parts_on_each_rank(table: Table) -> None:
    run = table.do((LOOPS / "slow_data.py").read_text())

    steps = table.store.reports.steps(run.id)
    assert [*steps] == [0, 1], run.fact.error
    for parts in steps.values():
        assert 0.02 <= parts["data"] < 0.1
        assert 0.005 <= parts["compute"] < 0.05
        assert 0.01 <= parts["other"] < 0.05


def test_the_exchange_of_replicas_is_divided_and_judged(table: Table) -> None:
    run = table.do((LOOPS / "wide_ddp.py").read_text())

    assert run.fact.state is RunState.FINISHED, run.fact.error
    steps = table.store.reports.steps(run.id)
    assert [*steps] == [0, 1]
    for parts in steps.values():
        assert 0.001 < parts["communication"] < sum(parts.values()) * 0.95
        assert parts["waiting"] + parts["moving"] == pytest.approx(parts["communication"])
    measured = table.store.reports.read_measured(run.id, EXCHANGE_PREFIX)
    assert {one["nbytes"] for one in measured.values()} == {4 * (2 * 1024 * 2048 + 2048 + 1024)}
    assert read_breakdown(table.store, run).says


@pytest.mark.parametrize("communicator", ["", "auto"], ids=["gloo", "our exchange"])
def test_the_rank_that_computes_longer_is_named_and_the_other_waits(
    table: Table, communicator: str
) -> None:
    source = (LOOPS / "wide_ddp.py").read_text()
    late = "        time.sleep(0.06 * dist.get_rank())\n        optimizer.step()\n"
    narrow = source.replace("2048", "64").replace("1024", "64")  # whose exchange takes no time
    slowed = "import time\n" + narrow.replace("from __future__ import annotations\n", "")
    options = variables({"communicator": communicator or None})
    run = table.ended(
        table.start(slowed.replace("        optimizer.step()\n", late), environment=options)
    )

    assert run.fact.state is RunState.FINISHED, run.fact.error
    waited, late_one = (table.store.reports.mean_steps(run.id)[rank]["waiting"] for rank in (0, 1))
    assert waited > 0.03 > late_one
    anatomy = read_breakdown(table.store, run)
    assert anatomy.slowest == 1
    assert "rank 1" in " ".join(anatomy.says).lower(), anatomy.says


@pytest.mark.parametrize("codec", [None, "powersgd"])
def test_replicas_with_an_exchange_option_are_judged(table: Table, codec: str | None) -> None:
    source = (LOOPS / "wide_ddp.py").read_text()
    options = variables({"communicator": "auto", "compress": codec})

    run = table.ended(table.start(source, environment=options))

    assert run.fact.state is RunState.FINISHED, run.fact.error
    assert "between 2 ranks on 1 node" in table.written(run)[0]
    assert all(
        parts["communication"] > 1e-4 for parts in table.store.reports.steps(run.id).values()
    )
    assert read_breakdown(table.store, run).says


@pytest.mark.parametrize("communicator", ["", "auto"], ids=["gloo", "our exchange"])
@pytest.mark.parametrize(("accumulates", "times"), [((("SILENT", "1"),), 1), ((), 3)])
def test_what_accumulating_replicas_send_is_that_of_the_passes_that_exchange(
    table: Table, accumulates: tuple[tuple[str, str], ...], times: int, communicator: str
) -> None:
    options = (("PARTS", "3"), *accumulates, *variables({"communicator": communicator or None}))
    run = table.ended(table.start((LOOPS / "wide_ddp.py").read_text(), environment=options))

    assert (run.fact.state, run.fact.iteration) == (RunState.FINISHED, 40), run.fact.error
    measured = table.store.reports.read_measured(run.id, EXCHANGE_PREFIX)
    once = 4 * (2 * 1024 * 2048 + 2048 + 1024)
    assert {one["nbytes"] for one in measured.values()} == {times * once}


def test_what_our_communicator_exchanges_in_a_loop_is_judged(table: Table) -> None:
    run = table.do((LOOPS / "averaged.py").read_text())

    assert run.fact.state is RunState.FINISHED, run.fact.error
    assert all(
        parts["communication"] > 1e-4 for parts in table.store.reports.steps(run.id).values()
    )
    assert read_breakdown(table.store, run).says


@pytest.mark.parametrize("where", ["backward", "worker", "all_reduce"])
def test_all_ranks_leave_when_one_raises_where_others_wait_for_it(table: Table, where: str) -> None:
    run = table.ended(
        table.start((LOOPS / "failing.py").read_text(), environment=(("FAILS", where),))
    )
    until(lambda: len(table.store.reports.endings(run.id)) == 2)
    seconds = time.time() - float(table.written(run)[1].split("at ")[1].split()[0])

    assert run.fact.state is RunState.FAILED
    assert f"RuntimeError: this {where} is broken" in (run.fact.error or "")
    assert table.store.reports.endings(run.id)[0].secondary
    assert seconds < 2  # gloo waits 30 minutes
    # The world is the same, and takes the next training although this one ended no group.
    again = table.do((LOOPS / "ddp.py").read_text())
    assert again.fact.state is RunState.FINISHED, again.fact.error
    assert again.fact.generation == run.fact.generation


@pytest.mark.parametrize("moment", [0.2, 0.5, 0.9])
def test_an_interrupted_import_of_torch_can_be_repeated(moment: float) -> None:
    waiting = "import time\nprint('here', flush=True)\nimport torch\ntime.sleep(60)"
    with real_table() as fresh:
        first = fresh.start(waiting, grace=0.0)
        until(lambda: len(fresh.written(fresh.store.run(first))) == 2)
        time.sleep(moment)
        ask_stop(fresh.store, first, NAME)
        stopped = fresh.ended(first)

        again = fresh.do("import torch, torch.distributed\nprint(torch.ones(2).sum())")

        assert stopped.fact.state is RunState.STOPPED, stopped.fact.error
        assert again.fact.state is RunState.FINISHED, again.fact.error
        assert "tensor(2.)" in fresh.written(again)[1]


# As a framework does, which takes a group that exists.
TAKES_GROUP = """
import torch
import torch.distributed as dist
if not dist.is_initialized():
    dist.init_process_group('gloo')
one = torch.ones(1)
dist.all_reduce(one)
print('sum', int(one))
"""


def takes_group(table: Table, ranks: int) -> int:
    """Sum ones over the ranks as a framework does; return the generation."""
    run = table.ended(table.start(TAKES_GROUP, ranks=ranks))
    assert run.fact.state is RunState.FINISHED, run.fact.error
    assert table.written(run) == dict.fromkeys(range(ranks), f"sum {ranks}\n")
    return run.fact.generation


def test_all_ranks_leave_their_group_if_a_run_has_others(table: Table) -> None:
    # A rank that misses a run does so too, or would wait for the others in the old one.
    used = {takes_group(table, ranks) for ranks in (2, 1, 2, 1, 1, 2, 2)}

    assert len(used) == 1  # all on the same processes


@pytest.mark.parametrize("where", ["dist.get_rank() == 1", "True"], ids=["one", "all"])
def test_a_group_of_a_failed_run_is_not_taken(table: Table, where: str) -> None:
    used = takes_group(table, 2)
    fails = f"if {where}:\n    raise ValueError('broken')\ndist.all_reduce(one)"

    run = table.do(TAKES_GROUP + fails)

    assert "broken" in (run.fact.error or "")
    assert takes_group(table, 2) == used


def test_replicas_may_go_right_after_their_group_has_ended(table: Table) -> None:
    run = table.do((LOOPS / "ended_groups.py").read_text())

    assert run.fact.state is RunState.FINISHED, run.fact.error
    assert run.fact.iteration == 120


def test_a_later_cell_trains_in_the_group_of_an_earlier_one(table: Table) -> None:
    assert takes_group(table, 2)

    run = table.do("dist.all_reduce(one)\nprint(int(one))")

    assert table.written(run) == {0: "4\n", 1: "4\n"}


def test_a_cell_without_its_group_says_which_run_failed(table: Table) -> None:
    takes_group(table, 2)
    failed = table.do("raise ValueError('broken')")
    assert failed.fact.state is RunState.FAILED

    run = table.do("dist.all_reduce(one)")

    said = f"was created before run {failed.wish.name!r} failed or was stopped"
    assert said in (run.fact.error or ""), run.fact.error


def test_a_divided_model_is_judged_by_its_messages(table: Table) -> None:
    run = table.do((LOOPS / "divided.py").read_text())

    assert run.fact.state is RunState.FINISHED, run.fact.error
    for parts in table.store.reports.steps(run.id).values():
        assert parts["point-to-point"] > 0.001
    says = " ".join(read_breakdown(table.store, run).says)
    assert "messages between ranks" in says
    assert "several small batches" in says
