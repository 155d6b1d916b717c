"""The sentences of a supervisor's log."""

from __future__ import annotations

from dataclasses import replace

import pytest

from workbench.core.fleet.model import Node, NodeState, Purchase
from workbench.core.run.model import RunState
from workbench.core.supervisor import log_messages
from workbench.core.supervisor.log_messages import LogFilter

NODE = Node("r-000004", NodeState.BOOTING, "10.0.0.4", type="cpu.2", zone="here-1b")
PURCHASE = Purchase("spot", "t-1", 0, 3, 1, ("g4dn.xlarge", "g5.xlarge"), max_price=0.5)


def test_a_world_is_reported_with_its_ranks_and_where_they_are() -> None:
    assert log_messages.starting(1, ("localhost",) * 2) == (
        "Starting 2 ranks on this machine (generation 1)."
    )
    assert log_messages.starting(2, ("a", "a", "b")) == "Starting 3 ranks on a, b (generation 2)."
    assert log_messages.ready(2, 1) == "1 rank is ready (generation 2)."


@pytest.mark.parametrize(
    ("state", "message", "sentence"),
    [
        (RunState.FINISHED, "", "Run 'digits' finished."),
        (RunState.FAILED, "Rank 1 failed: no.", "Run 'digits' failed: Rank 1 failed: no."),
        (RunState.STOPPED, "At iteration 7.", "Run 'digits' was stopped: At iteration 7."),
        (RunState.LOST, "Its ranks\nended.", "Run 'digits' was lost: Its ranks ended."),
    ],
)
def test_a_run_is_reported_with_its_end_and_why(state, message, sentence) -> None:
    assert log_messages.run_ended("digits", state, message) == sentence


def test_a_purchase_is_reported_with_types_and_limit() -> None:
    assert log_messages.buying(PURCHASE) == (
        "Buying 3 nodes of type g4dn.xlarge or g5.xlarge, for at most $0.50/h each."
    )
    assert log_messages.refused(PURCHASE, "no capacity.") == (
        "3 nodes of type g4dn.xlarge or g5.xlarge could not be bought: no capacity."
    )


def test_a_node_is_reported_as_it_moves() -> None:
    gone = replace(NODE, state=NodeState.GONE, message="The provider took it back.")

    assert log_messages.node_moved(None, NODE) == "Node r-000004 (cpu.2 in here-1b) is booting."
    assert log_messages.node_moved(NodeState.JOINED, gone) == (
        "Node r-000004 is gone: The provider took it back."
    )


@pytest.mark.parametrize(
    ("before", "state"),
    [
        (NodeState.BOOTING, NodeState.BOOTING),
        (NodeState.BOOTING, NodeState.VERIFIED),
        (NodeState.JOINED, NodeState.READY),
    ],
)
def test_what_says_nothing_new_of_a_node_is_not_reported(before, state) -> None:
    assert log_messages.node_moved(before, replace(NODE, state=state)) == ""


def test_an_interruption_and_a_recommendation_are_distinguished() -> None:
    assert log_messages.noticed("r-4", "terminate", "14:03:05") == (
        "Node r-4 received an interruption notice: the provider will terminate it at 14:03:05."
    )
    assert "recommends" in log_messages.noticed("r-4", "rebalance", "14:03:05")


def test_many_names_are_cut_to_a_few_and_counted() -> None:
    assert (
        log_messages.releasing("abcdef", "as asked") == "Releasing a, b, c, d and 2 more: as asked."
    )


AT = "2026-11-22 14:36:01"


def shown(*lines: str, least: str = "info") -> list[str]:
    telling = LogFilter(least)
    return [said for line in lines if (said := telling.line(line)) is not None]


def test_what_the_supervisor_did_is_shown_with_its_time() -> None:
    assert shown(f"{AT},512 INFO workbench.supervisor: 2 ranks are ready.") == [
        f"{AT}  2 ranks are ready."
    ]


@pytest.mark.parametrize(
    "line",
    [
        f"{AT},512 DEBUG workbench.supervisor: run x: Release()",
        f"{AT},512 INFO ipyparallel.cluster.cluster.: Starting 2 engines",
        f"{AT},512 WARNING traitlets: Message signing is disabled.",
    ],
)
def test_what_only_a_developer_reads_is_shown_on_request(line) -> None:
    assert shown(line) == []
    assert len(shown(line, least="debug")) == 1


def test_warnings_and_errors_say_that_they_are_such() -> None:
    lines = [f"{AT},0 {level} workbench.supervisor: no." for level in ("INFO", "WARNING", "ERROR")]

    assert shown(*lines) == [f"{AT}  no.", f"{AT}  Warning: no.", f"{AT}  Error: no."]
    assert shown(*lines, least="error") == [f"{AT}  Error: no."]


def test_an_error_of_a_library_is_shown_with_its_name() -> None:
    assert shown(f"{AT},0 ERROR asyncio: never retrieved") == [
        f"{AT}  Error: asyncio: never retrieved"
    ]


def test_a_traceback_goes_with_its_record() -> None:
    error = [f"{AT},0 ERROR workbench.supervisor: failed", "Traceback", "ValueError"]
    hidden = [f"{AT},0 DEBUG workbench.supervisor: step", "of two lines"]

    assert shown(*error, *hidden) == [f"{AT}  Error: failed", "  Traceback", "  ValueError"]
