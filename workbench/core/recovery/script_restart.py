"""Start a script again from its top, where it keeps its own checkpoints as torchrun's users do.

Such a script loads the newest checkpoint of its own at its start. It has no snapshots of ours:
after a loss, a notice or a resize it is started again on the new ranks, and never beside the old
ones, which may still write a checkpoint.
"""

from __future__ import annotations

from workbench.core.run.model import Run, RunKind
from workbench.errors import InputError


def check_restart(kind: RunKind, *, restart: bool) -> None:
    """Refuse the choice for a cell, which is not started again.

    Raises:
        InputError: It is chosen for a cell.
    """
    if restart and kind is not RunKind.SCRIPT:
        raise InputError(
            f"--restart is for scripts that load their own checkpoints, and this is a {kind}",
            "save the cell as a script, or leave --restart out.",
        )


def torchelastic_environment(run: Run) -> tuple[tuple[str, str], ...]:
    """Return the variables with which torchrun reports restarts; none for other runs.

    Source: https://docs.pytorch.org/docs/stable/elastic/run.html, "Environment Variables".
    """
    if not run.wish.restarts:
        return ()
    return (
        ("TORCHELASTIC_RUN_ID", run.id),
        ("TORCHELASTIC_RESTART_COUNT", str(run.fact.attempt - 1)),
        ("TORCHELASTIC_MAX_RESTARTS", str(run.wish.options.retries)),
    )
