"""Who looks on leaves the cores to the ranks, for as long as it looks on."""

from __future__ import annotations

import os

import pytest

from workbench.store.courtesy import courteous

pytestmark = pytest.mark.skipif(not hasattr(os, "SCHED_BATCH"), reason="this system has no policy")


def test_the_policy_lasts_as_long_as_the_body() -> None:
    before = os.sched_getscheduler(0)

    with courteous():
        during = os.sched_getscheduler(0)

    assert during == os.SCHED_BATCH
    assert os.sched_getscheduler(0) == before
