"""The ids of runs and of their executions."""

from __future__ import annotations

import re

import pytest

from workbench.core.run_id import EXECUTION_PATTERN, execution_id, run_and_attempt

RUN = "261123-063622-abcd"


@pytest.mark.parametrize(("attempt", "execution"), [(1, RUN), (2, f"{RUN}.2"), (13, f"{RUN}.13")])
def test_an_execution_names_its_run_and_its_attempt(attempt, execution) -> None:
    assert execution_id(RUN, attempt) == execution
    assert run_and_attempt(execution) == (RUN, attempt)
    assert re.search(EXECUTION_PATTERN, execution)


@pytest.mark.parametrize(
    "text", ["", "fit", f"{RUN}.", f"{RUN}.0", f"{RUN}.1", f"{RUN}.02", f"{RUN}.2.3", "../x.2",
             f"{RUN}.2222222", f"{RUN}.x"]
)  # fmt: skip
def test_nothing_else_is_an_execution(text) -> None:
    assert not re.search(EXECUTION_PATTERN, text)
