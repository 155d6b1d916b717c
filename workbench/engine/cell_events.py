"""Fire IPython's events around a cell, by which extensions such as autoreload work."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from IPython.core.interactiveshell import ExecutionInfo, ExecutionResult


@contextmanager
def cell_events(shell: Any, source: str, transformed: str) -> Iterator[None]:
    """Fire the events before the body and after it, as IPython does for a cell that is shown.

    What a magic runs as a cell within it, as ``%%capture`` does, raises its error: shown by a
    message of the engine, it would be lost, and a stop as well.

    Args:
        source: The cell as it was typed.
        transformed: The cell as Python.
    """
    info = ExecutionInfo(source, False, False, True, None)
    info.transformed_cell = transformed  # older releases of IPython take no argument for it
    result = ExecutionResult(info)
    shell.events.trigger("pre_execute")
    shell.events.trigger("pre_run_cell", info)
    run_cell = shell.run_cell

    def run_inner_cell(*args: Any, **kwargs: Any) -> Any:
        inner = run_cell(*args, **kwargs)
        inner.raise_error()
        return inner

    shell.run_cell = run_inner_cell
    try:
        yield
    except BaseException as error:
        result.error_in_exec = error
        raise
    finally:
        shell.run_cell = run_cell
        shell.events.trigger("post_execute")
        shell.events.trigger("post_run_cell", result)
