"""Every error that workbench raises, grouped by what the reader can do about it.

A message is one sentence with the value that was wrong and the remedy. The notebook and the
command line print the message alone; no traceback of ours is shown for a mistake of theirs.
"""

from __future__ import annotations


class WorkbenchError(Exception):
    """Base of all errors that workbench raises on purpose."""

    def _render_traceback_(self) -> list[str]:
        """Show IPython the sentence, not the frames that led to it."""
        return [f"{type(self).__name__}: {self}"]


class InputError(WorkbenchError):
    """Correct what was typed: an option, a size, a cell, a job file."""


class StateError(WorkbenchError):
    """Act on what is so first: a name in use, a cluster that is not up, an unknown run."""


class Unknown(StateError):
    """Correct the name: no run or cluster has it, or has it any longer."""


class PriceQuestion(StateError):
    """Say yes to what it would cost; nothing was done.

    Args:
        message: What it would cost.
        price: The same in $/h.
    """

    def __init__(self, message: str, price: float) -> None:
        super().__init__(message)
        self.price = price


class MachineError(WorkbenchError):
    """Mend the machine: MPI missing, disk full, directory not writable."""


class KeyUnknown(MachineError):
    """Compare the host key's fingerprint on the host itself, and say yes to it."""


class StoreError(MachineError):
    """The store cannot be read or written as it is."""


class ClusterError(WorkbenchError):
    """The cluster did not do what was asked of it; its log says why."""


class CloudRefused(WorkbenchError):
    """A place that lends nodes would not do what was asked; nothing was bought by that call.

    Args:
        message: One sentence with the remedy.
        kind: What may help; one of ``core.refusal.Kind``.
        code: The vendor's own word.
    """

    def __init__(self, message: str, kind: str, code: str = "") -> None:
        super().__init__(message)
        self.kind = kind
        self.code = code


class GradientError(WorkbenchError):
    """Correct the training: ranks have different gradients, or one is not finite."""


class RunFailed(WorkbenchError):
    """A rank failed; shows that rank's own traceback.

    Args:
        message: One line that names run, rank and host.
        rank_traceback: The failed rank's traceback as text, without frames of ours.
    """

    def __init__(self, message: str, rank_traceback: str = "") -> None:
        super().__init__(message)
        self.rank_traceback = rank_traceback

    def __str__(self) -> str:
        message = str(self.args[0])
        return f"{message}\n{self.rank_traceback}" if self.rank_traceback else message

    def _render_traceback_(self) -> list[str]:
        return str(self).splitlines()
