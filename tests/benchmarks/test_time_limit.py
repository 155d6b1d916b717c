"""No benchmark begins when there is no time left for it."""

from __future__ import annotations

import pytest

import benchmarks.__main__
from benchmarks.__main__ import NAMES, ONLY_BY_NAME, main


def test_what_no_time_is_left_for_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(benchmarks.__main__, "LAST_BEGIN_MINUTES", -1)

    assert main([]) == 1

    shown, said = capsys.readouterr()
    left_out = {line.partition(":")[0] for line in said.splitlines() if "left out" in line}
    assert "failed" not in shown
    assert left_out == {*NAMES} - {*ONLY_BY_NAME}
