"""Run cells on one rank without MPI, in a real IPython shell, and return their logged output.

Cells come as a JSON list on stdin. On stdout: for each a list of [stream or action, MIME types or
text]; what went past the log; whether matplotlib was imported before any cell asked for it.
"""

from __future__ import annotations

import contextlib
import json
import sys
from pathlib import Path

from IPython.core.displaypub import CapturingDisplayPublisher
from IPython.core.interactiveshell import InteractiveShell

from workbench.core.run.display import Display
from workbench.core.run.model import Assignment, RunKind, RunWish
from workbench.core.run.rank_protocol import Batch, Ending, decode_message
from workbench.engine.execution import execute
from workbench.engine.output.display_capture import route_displays
from workbench.engine.output.output_capture import route_output
from workbench.engine.reporting.run_log import RunLog
from workbench.engine.run_context import RunContext, set_current


class OneRank:
    """A rank without MPI and without a supervisor."""

    def __init__(self, log: RunLog) -> None:
        self.run = RunContext(log)

    def enter(self, _: Assignment) -> RunContext:
        set_current(self.run)
        return self.run

    def leave(self, run: RunContext, ending: object) -> None:
        run.log.finish(ending)
        set_current(None)

    def wind_up(self, run: RunContext, ending: Ending) -> Ending:
        return ending

    def end(self, run: RunContext, ending: Ending) -> None:
        """Do nothing: the process is that of the tests."""

    def stale(self, _: BaseException) -> str:
        return ""

    def interruptible(self) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext()


def run_cell(cell: str, number: int, shell: InteractiveShell) -> list[list[object]]:
    log = RunLog("260101-000000-arun", 0, Path(f"rank-{number}.log"))
    kind, path = (RunKind.SCRIPT, "train.py") if cell.startswith("# script") else (RunKind.CELL, "")
    assignment = Assignment(RunWish(log.run, "", kind, cell, path=path), ranks=1)
    execute(OneRank(log), assignment, shell)
    batch = decode_message(log.take() or b"")
    assert isinstance(batch, Batch)
    assert batch.ending
    shown = [
        [one.action, sorted(one.data)] if isinstance(one, Display) else [one.stream, one.text]
        for one in batch.chunks
    ]
    return [*shown, [batch.ending.state, batch.ending.error]]


def main() -> None:
    shell = InteractiveShell.instance()
    shell.display_pub = past = CapturingDisplayPublisher()
    answer, original = {}, sys.stdout
    route_output()
    route_displays(shell)
    answer["imported"] = "matplotlib" in sys.modules
    answer["cells"] = [run_cell(cell, at, shell) for at, cell in enumerate(json.load(sys.stdin))]
    shell.run_cell("from IPython.display import display, HTML; display(HTML('<b>outside</b>'))")
    answer["past"] = [output["data"] for output in past.outputs]
    print(json.dumps(answer), file=original)


main()
