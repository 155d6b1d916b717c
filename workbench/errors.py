"""Every error that workbench raises, grouped by what the reader can do about it.

A message is one sentence with the value that was wrong and the remedy. The notebook and the
command line print the message alone; no traceback of ours is shown for a mistake of theirs.
"""

from __future__ import annotations

from workbench.surfaces import in_notebook


class WorkbenchError(Exception):
    """The base class of all errors that workbench raises.

    Args:
        what: What is wrong, with the value.
        remedy: What to do about it, or what happens next, as the part of the sentence after a
            semicolon. It is empty where ``what`` names the valid values, or where only the
            program's own defect is to blame.
    """

    def __init__(self, what: str = "", remedy: str = "") -> None:
        super().__init__(f"{what}; {remedy}" if remedy else what)
        self.what = what
        self.remedy = remedy

    def _render_traceback_(self) -> list[str]:
        """Show the message alone in IPython, with magics in place of shell commands."""
        return [f"{type(self).__name__}: {in_notebook(str(self))}"]


class InputError(WorkbenchError):
    """Invalid input: correct the option, size, cell or job file."""


class NoKeyboard(InputError, EOFError):
    """``input()`` on a rank, which has no keyboard: pass the value in another way."""


class StateError(WorkbenchError):
    """The present state does not allow this: a name in use, a cluster that is not up."""


class Unknown(StateError):
    """No run or cluster has this name, or no longer: correct it."""


class StaleCommunicator(StateError):
    """The communicator's ranks have failed since: run the cell that creates it again."""


class PriceQuestion(StateError):
    """The price is not confirmed yet, so nothing was done.

    Args:
        message: The price in a sentence.
        price: The same in $/h.
    """

    def __init__(self, message: str, price: float) -> None:
        super().__init__(message)
        self.price = price


class MachineError(WorkbenchError):
    """A problem of this machine: MPI missing, disk full, directory not writable."""


class ProtocolError(MachineError):
    """A node or a rank sent something invalid: a clause about "it", which the caller completes."""


class StoreTaken(MachineError):
    """Another machine uses the store, which is on a disk that both share."""


class HostLost(MachineError):
    """The session with a host is lost: check whether it is up and can be reached."""


class KeyUnknown(MachineError):
    """An unknown host key: compare its fingerprint on the host itself, and confirm it."""


class StoreError(MachineError):
    """The store cannot be read or written."""


class StoreNewer(StoreError):
    """The store was written by a newer workbench: upgrade this one."""


class StoreUnavailable(StoreError):
    """The store cannot be written now; nothing is lost: follow the message and try again."""


class RowUnreadable(StoreUnavailable):
    """This version cannot read one row of the store: ignore it, or upgrade workbench."""


class StoreFull(StoreUnavailable):
    """The store's disk is full: free some space."""


class DataRefused(StoreError):
    """A value cannot be stored because of a defect of its producer; the store is intact."""


class ClusterError(WorkbenchError):
    """The cluster failed; see its log."""


class CloudError(WorkbenchError):
    """A provider refused a request; nothing was bought by that call.

    Args:
        what: What is wrong; or the whole sentence.
        kind: What may help; one of ``core.fleet.cloud_errors.ErrorKind``.
        code: The provider's own error code.
        remedy: As in ``WorkbenchError``.
        is_early: Whether a new resource may only not be visible to the provider yet.
        provider_message: The provider's own message.
    """

    def __init__(
        self,
        what: str,
        kind: str,
        code: str = "",
        *,
        remedy: str = "",
        is_early: bool = False,
        provider_message: str = "",
    ) -> None:
        super().__init__(what, remedy)
        self.kind = kind
        self.code = code
        self.is_early = is_early
        self.provider_message = provider_message


class GradientError(WorkbenchError):
    """Ranks have different gradients, or one is not finite: correct the training."""


class Interrupted(KeyboardInterrupt):
    """The user interrupted a cell: the cells that are queued behind it do not run.

    Args:
        message: What became of that for which the cell waited, as a sentence.
    """

    def _render_traceback_(self) -> list[str]:
        """Show the message in IPython, without frames of ours."""
        return [f"KeyboardInterrupt: {in_notebook(str(self))}"]


Interrupted.__name__ = "KeyboardInterrupt"  # the name by which pages and programs know it


class RunFailed(WorkbenchError):
    """A rank failed; shows that rank's own traceback.

    Args:
        message: One line that names run, rank and host.
        rank_traceback: The failed rank's traceback as text, without frames of ours.
    """

    def __init__(self, message: str, rank_traceback: str = "") -> None:
        super().__init__(message)
        self.rank_traceback = rank_traceback  # empty if the page shows it already

    def __str__(self) -> str:
        message = str(self.args[0])
        return f"{message}\n{self.rank_traceback}" if self.rank_traceback else message

    def _render_traceback_(self) -> list[str]:
        return [in_notebook(str(self.args[0])), *self.rank_traceback.splitlines()]
