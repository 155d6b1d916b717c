"""Messages to pages have the same types in Python and in TypeScript."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import get_args

import pytest
from msgspec import defstruct

from workbench.core.performance.step_sampling import LABELS
from workbench.core.run.model import RunState
from workbench.pages.protocol import RankMessage, StepPart

SCRIPT = Path(__file__).parents[2] / "extension" / "messages.py"


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    """The script that writes the types."""
    spec = importlib.util.spec_from_file_location("messages", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_types_of_the_page_are_in_step(tool, capsys, monkeypatch) -> None:
    monkeypatch.setattr("sys.argv", ["messages.py", "--check"])

    assert tool.main() == 0, capsys.readouterr().out


@pytest.mark.parametrize(
    ("hint", "written"),
    [
        (float | None, "number | null"),
        (tuple[float | None, ...], "(number | null)[]"),
        (tuple[tuple[int, str], ...], "[number, string][]"),
        (RunState, "RunState"),
        (RankMessage | None, "IRank | null"),
    ],
)
def test_a_type_is_written_as_typescript_has_it(tool, hint, written) -> None:
    assert tool._type(hint) == written


def test_what_has_a_default_may_be_missing(tool) -> None:
    kind = defstruct("PriceMessage", [("now", float), ("then", float, 0.0)])
    kind.__doc__ = "A price.\n\nArgs:\n    now: In ``$``\n        an hour."

    assert tool._interface(kind, {"now": float, "then": float}) == (
        "/** A price. */\nexport interface IPrice {\n  /** In `$` an hour. */\n"
        "  now: number;\n  then?: number;\n}\n"
    )


def test_a_type_that_is_not_known_is_refused(tool) -> None:
    with pytest.raises(TypeError, match="add it to _type"):
        tool._type(complex)


def test_every_part_of_a_step_is_known_to_the_page() -> None:
    assert {*LABELS} == {*get_args(StepPart)}
