"""Which lines of a supervisor's log are shown to the user."""

from __future__ import annotations

import pytest

from workbench.core.supervisor.log_messages import LogFilter

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
