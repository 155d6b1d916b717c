"""What a user chooses for a run, as one value that is stored with it and sent to its ranks.

An option that is stored is a field here: the request, the store's row and the assignment carry the
value as a whole, so none of them names its fields.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from workbench.core.cluster.model import WhenDone
from workbench.core.performance.exchange_model import Codec
from workbench.core.quote import quote_value
from workbench.errors import InputError

DEFAULT_GRACE = 5.0
DEFAULT_RETRIES = 3
MOST_RETRIES = 1_000_000
MOST_NOTE = 200

# In what ranks read options, and the choices that there are.
COMMUNICATOR_VARIABLE = "WORKBENCH_COMMUNICATOR"
COMMUNICATORS = ("auto", "ring", "hierarchical", "mpi")
COMPRESS_VARIABLE = "WORKBENCH_COMPRESS"
CODECS = tuple(str(codec) for codec in Codec)
DOUBLE_VARIABLE = "WORKBENCH_DOUBLE_BUFFERING"
BATCH_VARIABLE = "WORKBENCH_BATCH"
BATCHES = GLOBAL, PER_RANK = ("global", "per-rank")
REPLAY_VARIABLE = "WORKBENCH_REPLAY"
REPLAYS = ("on", "off")
EVERY_VARIABLE = "WORKBENCH_SNAPSHOT_EVERY"
"""The longest time between two snapshots, in seconds."""


@dataclass(frozen=True)
class RunOptions:
    """The options of one run.

    Args:
        ranks: Ranks to run on; None for all of the generation.
        arguments: The script's arguments.
        parameters: Names that are set on every rank before the cell runs.
        environment: Variables of the job file, and those of its options; they win over the
            caller's, which are in the run's ``origin``.
        grace: Seconds between the request to stop and the end by force.
        wall_clock_limit: Seconds after which the run is stopped; 0 for none.
        retries: How often it is tried again after a failure; see ``core.recovery.resumption``.
        restart: Whether it is a script that is started again from its top, and loads its own state;
            see ``RunWish.restarts``.
        note: What it is for, in its user's words; empty for none.
        when_done: What becomes of the cluster's nodes when it has ended, and no other run waits;
            None leaves that to the cluster's idle time.
    """

    ranks: int | None = None
    arguments: tuple[str, ...] = ()
    parameters: tuple[tuple[str, Any], ...] = ()
    environment: tuple[tuple[str, str], ...] = ()
    grace: float = DEFAULT_GRACE
    wall_clock_limit: float = 0.0
    retries: int = DEFAULT_RETRIES
    restart: bool = False
    note: str = ""
    when_done: WhenDone | None = None

    def changed(self, given: Mapping[str, Any]) -> RunOptions:
        """Return these options with those that are given.

        Args:
            given: Values by name, also of other options, which are left out. One that a user leaves
                out is None, or False for a flag. Parameters are added to the present ones.
        """
        names = [one.name for one in fields(self) if one.name in given]
        changes = {
            name: given[name]
            for name in names
            if given[name] is not None and given[name] is not False
        }
        if "parameters" in changes:
            merged = {**dict(self.parameters), **dict(changes["parameters"])}
            changes["parameters"] = (*merged.items(),)
        return replace(self, **changes)

    def check(self) -> None:
        """Refuse values that no run can have.

        Raises:
            InputError: One of them is not valid.
        """
        if self.grace < 0:
            raise InputError(f"grace must be at least 0 seconds, not {self.grace:g}.")
        if not 0 <= self.retries <= MOST_RETRIES:
            raise InputError(
                f"retries must be a number from 0 to {MOST_RETRIES:,}, not {self.retries}",
                "0 ends a run at its first failure.",
            )
        if len(self.note) > MOST_NOTE or not self.note.isprintable():
            raise InputError(
                f"note must be one line of at most {MOST_NOTE} characters, "
                f"not {quote_value(self.note)}."
            )


NO_OPTIONS = RunOptions()
"""Those of a run for which nothing was chosen."""
