"""The cells of a hostile user, and the output that each must have."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

CELLS = Path(__file__).parent / "cells"
MEGABYTE = 1_000_000


def source_of(cell: str) -> str:
    """Return a cell's text; what only IPython understands is in a file ``.ipy``."""
    (path,) = CELLS.glob(f"{cell}.*py")
    return path.read_text(encoding="utf-8")


@dataclass(frozen=True)
class Row:
    """One cell, and what has to be seen of it.

    Args:
        cell: Name of its file below ``cells``.
        sees: Patterns, each of which the page shows.
        never: Patterns that the page does not show.
        logs: Patterns, each of which ``workbench logs`` has.
        seconds: How long the cell may take.
        keeps: Whether variables of the cell before are there for the cell after.
        ranks: World sizes that it is run on.
        nbytes: Most that the page gets.
        line: Line of the editor that an error has to name; 0 where there is no error.
    """

    cell: str
    sees: tuple[str, ...] = ()
    never: tuple[str, ...] = ()
    logs: tuple[str, ...] = ()
    seconds: float = 8.0
    keeps: bool = True
    ranks: tuple[int, ...] = (1, 2)
    nbytes: int = MEGABYTE
    line: int = 0

    @property
    def source(self) -> str:
        """The cell's text."""
        return source_of(self.cell)


FINISHED = r"finished (?:·|\\u00b7)"
KEYBOARD = "keyboard"
CHILDREN = tuple(f"from {name}" for name in ("write", "subprocess", "system", "libc", "fork"))

TABLE = (
    # -- what is reported
    Row("report_numpy_numbers", sees=(FINISHED, "iteration 3 of 3")),
    Row("report_from_threads", sees=(FINISHED, "iteration 4,?000"), seconds=20),
    Row("report_iteration_too_large", sees=("InputError", "9223372036854775808"), line=4),
    Row("report_total_too_large", sees=("InputError", "1180591620717411303424"), line=4),
    Row("report_epoch_nan", sees=("InputError", "nan"), line=4),
    Row("report_epoch_nan_often", sees=("InputError", "nan"), line=5),
    Row("report_array", sees=("InputError", r"float\("), line=6),
    Row("report_key_no_text", sees=("TypeError",), line=4),
    Row("report_many_names", sees=(FINISHED,), seconds=30),
    # -- what is printed
    Row("print_surrogate", sees=(FINISHED, r"bad .+ surrogate")),
    Row("print_many_lines", sees=("line 59999", "left out"), logs=("line 30000",), seconds=20),
    Row("print_50_megabytes", sees=(FINISHED, "left out"), seconds=20),
    Row("raise_20_megabytes", sees=("ValueError", "left out"), seconds=20, line=2),
    Row("children_print", sees=CHILDREN, logs=CHILDREN, seconds=10),
    Row("children_flood", sees=(FINISHED, "the end of the flood", "left out"), seconds=40),
    Row("replace_stdout", sees=(FINISHED,)),
    Row("close_descriptors", sees=(FINISHED, "after")),
    Row("progress_bar", sees=(FINISHED, "100%"), seconds=10),
    # -- what is shown
    Row("show_html", sees=(FINISHED, "<b>bold</b>")),
    Row("show_figure", sees=(FINISHED, "image/png"), seconds=20),
    Row("show_figure_by_pyplot", sees=(FINISHED, "image/png"), seconds=20),
    Row("show_table", sees=(FINISHED, "<td>cell of a table</td>")),
    Row("show_update", sees=(FINISHED, "<i>second</i>")),
    Row("show_clear", sees=(FINISHED, "what stays")),
    # -- processes
    Row("pool_fork", sees=(FINISHED, r"\[0, 1, 4, 9\]"), seconds=15),
    Row("pool_forkserver", sees=(FINISHED, r"\[0\.0, 1\.0, 2\.0\]"), seconds=30),
    Row("pool_spawn", sees=(FINISHED, r"\[0\.0, 1\.0, 2\.0\]"), seconds=30),
    Row("pool_executor", sees=(FINISHED, r"\[0, 1, 4, 9\]"), seconds=15),
    Row("fork_often", sees=(FINISHED, "forty"), seconds=10),
    # -- asyncio
    Row("asyncio_run", sees=(FINISHED, "async fine")),
    Row("await_at_top", sees=(FINISHED, "async fine")),
    # -- what asks a person
    Row("ask_input", sees=(KEYBOARD,), line=2),
    Row("ask_breakpoint", sees=(KEYBOARD,), line=3),
    Row("ask_pdb", sees=(KEYBOARD,), line=5),
    # -- ways to leave
    Row("leave_by_sys_exit", sees=("SystemExit: 3",)),
    Row("leave_by_os_exit", sees=("exit status 0",), never=("ran out of memory",), keeps=False),
    Row("leave_by_segfault", sees=("(?i)segmentation fault", "string_at"), keeps=False),
    Row("leave_by_abort", sees=("last words of C",), keeps=False),
    Row("recursion", sees=("RecursionError",)),
    # -- surroundings
    Row("redefine_names", sees=(FINISHED,)),
    Row("leave_folder_deleted", sees=(FINISHED,)),
    Row("ignore_interrupts", sees=(FINISHED,)),
    Row("shell_commands", sees=(FINISHED, "from a shell")),
)
