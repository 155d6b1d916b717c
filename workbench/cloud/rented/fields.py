"""What the form of every provider asks whose nodes this computer sets up and keeps alive."""

from __future__ import annotations

from workbench.core.fleet.form import FieldKind, FormField
from workbench.core.option import DATA, DURATION, FLAG, JOB, PROVIDER, Option

# A laptop may sleep for a while, but an idle night must not be paid for.
LEASE_SECONDS = 1800.0
SHORTEST_LEASE, LONGEST_LEASE = 60.0, 86400.0


def check_lease(seconds: float) -> None:
    """Check the time without contact after which a node ends itself.

    Raises:
        ValueError: It is too short or too long.
    """
    if not SHORTEST_LEASE <= seconds <= LONGEST_LEASE:
        raise ValueError(f"from 1 minute to 24 hours, not {seconds:g} s")


CUDA = FormField(
    "cuda", "Install CuPy and NCCL on nodes", "Even if this computer has neither",
    FieldKind.SWITCH, is_folded=False,
    typed=Option(
        "cuda", "Install CuPy and NCCL on nodes, even if this machine has neither.", FLAG,
        on=("up", JOB), section=DATA, example=True,
    ),
)  # fmt: skip
LEASE = FormField(
    "lease", "Lease, min", "Nodes end if they do not hear from this computer for this long",
    FieldKind.NUMBER, LEASE_SECONDS / 60, scale=60, check=check_lease,
    typed=Option(
        "lease", "Nodes end if they do not hear from this computer for this long.", DURATION,
        on=("up", JOB), section=PROVIDER, shown="30m", example="30m",
    ),
)  # fmt: skip
