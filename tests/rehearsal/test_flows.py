"""With a limit per connection, several connections use the full bandwidth."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from statistics import median

import pytest

from benchmarks.place import Place
from benchmarks.shaped import ShapedHosts
from tests.rehearsal.flows import count_used, limit_flows
from tests.rehearsal.hosts import Hosts, why_not
from workbench.core.performance.bandwidth import BandwidthSurvey, measurement_of

pytestmark = [
    pytest.mark.root, pytest.mark.mpi, pytest.mark.weekly, pytest.mark.timeout(300),
]  # fmt: skip

TOTAL, FLOW, SOCKETS = 400.0, 100.0, 4
MEASURING = Path(__file__).with_name("measuring.py")


@pytest.fixture(scope="module")
def limited() -> Iterator[ShapedHosts]:
    """Two hosts; each connection between them has a quarter of what there is."""
    if reason := why_not():
        (pytest.fail if os.environ.get("CI") else pytest.skip)(reason)
    with Place() as place, Hosts(2) as hosts:
        for host in hosts:
            limit_flows(host, TOTAL, FLOW)
        yield ShapedHosts(hosts, place, TOTAL)


def measured(limited: ShapedHosts, sockets: int) -> BandwidthSurvey:
    reported = limited.mpi(MEASURING, nodes=2, sockets=sockets)[0]["measurement"]
    return measurement_of(reported).survey


def mbits(survey: BandwidthSurvey) -> float:
    return 8e-6 * median(pair.bandwidth for pair in survey.pairs)


def ours(survey: BandwidthSurvey) -> float:
    """The busbw of our own exchange's largest size, in 10⁶ bits a second."""
    return 8e-6 * [one for one in survey.exchanges if one.way == "workbench"][-1].busbw


def test_several_sockets_carry_what_one_may_not(limited) -> None:
    one, several = measured(limited, 1), measured(limited, SOCKETS)

    assert mbits(one) < 1.1 * FLOW
    assert ours(one) < 1.1 * FLOW
    # Two of them may share a class, and then the others wait for these two.
    assert mbits(several) > 1.7 * FLOW, survey_text(several)
    assert ours(several) > 1.7 * FLOW, survey_text(several)
    assert count_used(limited.hosts[0], 1_000_000) > SOCKETS


def survey_text(survey: BandwidthSurvey) -> str:
    return f"{mbits(survey):.0f} and {ours(survey):.0f} Mbit/s"
