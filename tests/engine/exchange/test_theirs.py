"""ChainerMN's own tests of its communicators, as they are at v7.8.1, run on ours."""

from __future__ import annotations

from pathlib import Path

import pytest

pytestmark = pytest.mark.mpi

THEIRS = Path(__file__).with_name("theirs") / "communicator.py"

RUN = """
from unittest import mock
import chainerx, pytest
from chainermn.communicators import naive_communicator
from workbench.engine.exchange.communicator import ExchangeCommunicator

sys.modules["mock"] = mock  # what they import is a part of Python today
naive_communicator.NaiveCommunicator = ExchangeCommunicator  # chainermn looks it up at each call

class Results:
    def pytest_runtest_logreport(self, report):
        if report.when == "call" or report.outcome != "passed":
            found.setdefault(report.outcome, []).append(f"{report.nodeid} {report.longrepr or ''}")

settings = folder / f"{rank}.ini"  # theirs, not this repository's
settings.write_text("[pytest]\\nmarkers =\\n gpu\\n slow\\n")
if not chainerx.is_available():  # is built apart, and for old Pythons alone
    sys.argv[3:3] = ["-k", "not (chx or test_communicator_cpu and True)"]
options = ["-p", "no:cacheprovider", "-p", "no:warnings", "-c", str(settings), "-m", "not gpu"]
found["status"] = int(pytest.main([*options, *sys.argv[3:]], plugins=[Results()]))
"""


@pytest.mark.parametrize("size", [2, 3])
def test_chainermns_own_tests_pass_on_ours(on_ranks, size) -> None:
    for mine in on_ranks(RUN, size, str(THEIRS)):
        assert mine.get("failed", []) == []
        assert mine["status"] == 0
        # Their classes are for two processes; the function goes through everything else.
        assert len(mine["passed"]) >= {2: 13, 3: 1}[size]
