"""A supervisor counts as hanging only if nothing else explains its silence."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from workbench.core.moment import Deadline
from workbench.core.supervisor.heartbeat import (
    PATIENCE_SECONDS,
    STILL_SECONDS,
    Heartbeat,
    Stirring,
    heartbeat_text,
    is_late,
    read_heartbeat,
    version_remark,
    why_still,
)

BEAT = Heartbeat("boot", 7, 70, 1000.0, PATIENCE_SECONDS, 2000.0, 3000.0, {"expires": (9.0, 2060)})
LATE = 1000.0 + PATIENCE_SECONDS + 5.0
LONG = 1000.0 + STILL_SECONDS + 5.0


@pytest.mark.parametrize(
    ("before", "after", "now", "why"),
    [
        (Stirring("T", 5), Stirring("T", 5), LATE, "was stopped for 25 s"),
        (Stirring("S", 5), Stirring("S", 5), LONG, "did not move for 65 s"),
        (Stirring("D", 5), Stirring("D", 5), LONG, "hung in disk I/O for 65 s"),
        (Stirring("T", 5), Stirring("T", 5), 1010.0, ""),
        (Stirring("S", 5), Stirring("S", 5), LATE, ""),
        (Stirring("S", 5), Stirring("S", 6), LONG, ""),
        (Stirring("D", 5), Stirring("D", 6), LONG, ""),
        (Stirring("R", 5), Stirring("R", 5), LONG, ""),
        (Stirring("t", 5), Stirring("t", 5), LONG, ""),
        (Stirring("T", 5), Stirring("T", 5, traced=True), LONG, ""),
    ],
    ids=[
        *("stopped", "still", "disk", "stopped a moment ago", "still for a while"),
        *("given a core", "short of memory", "waits for a core", "traced", "debugged"),
    ],
)
def test_only_what_does_not_move_at_all_is_replaced(before, after, now, why) -> None:
    assert why_still(BEAT, before, after, now) == why


def test_what_announced_that_it_takes_long_is_not_late() -> None:
    slow = Heartbeat("boot", 7, 70, 1000.0, 300.0, 2000.0, 3000.0)

    assert not is_late(slow, 1290.0)
    assert is_late(slow, 1301.0)


def test_it_is_read_as_it_was_written() -> None:
    assert read_heartbeat(heartbeat_text(BEAT)) == BEAT
    assert BEAT.deadlines() == {"expires": Deadline(9.0, 2060)}
    assert BEAT.left() == {"expires": (9.0, 60.0)}


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "null", "{}", '{"ends": 3}', '{"ends": {"a": [1]}}', "1e999"]
)
def test_what_is_no_heartbeat_is_none(text: str) -> None:
    assert read_heartbeat(text) is None


@pytest.mark.parametrize(
    ("version", "remark"),
    [
        ("0.2.0", ""),
        ("0.1.0", "The supervisor of cluster 'lab' is still that of workbench 0.1.0, and this is"),
        ("", "The supervisor of cluster 'lab' is still that of an earlier workbench, and this is"),
    ],
)
def test_a_supervisor_of_another_version_is_named_with_the_remedy(version, remark) -> None:
    found = version_remark("lab", replace(BEAT, version=version), "0.2.0")

    assert found.startswith(remark)
    assert bool(found) == bool(remark)
    assert not found or found.endswith("(`workbench delete --cluster lab`).")


def test_a_heartbeat_of_a_version_that_said_none_is_read() -> None:
    values = json.loads(heartbeat_text(BEAT))
    del values["version"]

    assert read_heartbeat(json.dumps(values)) == BEAT
