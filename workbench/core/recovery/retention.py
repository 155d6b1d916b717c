"""Choose which ended runs to delete: those selected by the user, and those kept too long."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from workbench.core.run.model import length
from workbench.core.units import size_text
from workbench.errors import InputError

FOREVER = "all"


@dataclass(frozen=True)
class KeptRun:
    """An ended run, and its size.

    Args:
        ended: Epoch seconds.
        nbytes: In the store and in its folder, approximately.
    """

    id: str
    name: str
    ended: float
    nbytes: int


@dataclass(frozen=True)
class Retention:
    """How long ended runs are kept; by default nothing is deleted automatically.

    Args:
        age: Seconds after a run's end; 0 forever.
        nbytes: Limit for store and runs, beyond which the oldest are deleted; 0 for no limit.
    """

    age: float = 0.0
    nbytes: int = 0

    def __str__(self) -> str:
        if not self.age and not self.nbytes:
            return "all runs are kept until you delete them"
        says = [f"{length(self.age)} after they ended"] if self.age else []
        says += [f"from the oldest while all take more than {size_text(self.nbytes)}"] * bool(
            self.nbytes
        )
        return f"ended runs are deleted {' and '.join(says)}"


def choose_runs(
    runs: Sequence[KeptRun],
    *,
    now: float,
    names: Collection[str] = (),
    older: float | None = None,
    larger: int | None = None,
    keep: int | None = None,
) -> list[KeptRun]:
    """Return the runs that meet all conditions, the newest first.

    Args:
        runs: Ended runs.
        now: Epoch seconds.
        names: Names or ids; none for all.
        older: Seconds since their end.
        larger: Their size in bytes.
        keep: How many of the newest are kept.

    Raises:
        InputError: There is no condition, or ``keep`` is negative.
    """
    if not names and older is None and larger is None and keep is None:
        raise InputError(
            "Say which runs to delete: their names, --older-than 30d, --larger-than 1GB or "
            "--keep 20."
        )
    if keep is not None and keep < 0:
        raise InputError(f"--keep must be at least 0, not {keep}.")
    newest = sorted(runs, key=lambda run: run.ended, reverse=True)[keep or 0 :]
    return [
        run
        for run in newest
        if (not names or run.id in names or run.name in names)
        and (older is None or now - run.ended > older)
        and (larger is None or run.nbytes > larger)
    ]
