"""Continue while the store cannot be written: writes wait, and the problem is reported."""

from __future__ import annotations

import errno
import logging
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from pathlib import Path

from workbench.errors import StoreFull, StoreUnavailable
from workbench.store.disk import give_up_reserve, keep_reserve

log = logging.getLogger("workbench.supervisor")

RESERVE_SECONDS = 60.0
_FULL = (errno.ENOSPC, errno.EDQUOT)


class StoreOutage:
    """Lets parts of a turn fail when the disk is full, and repeats the writes that must happen.

    Args:
        store: The file of the store.
    """

    def __init__(self, store: Path) -> None:
        self._store = store
        self._waiting: dict[Hashable, Callable[[], object]] = {}
        self._trouble = self._logged = ""
        self._kept = -RESERVE_SECONDS
        self.is_leaving = False

    @property
    def has_all(self) -> bool:
        """Whether the store has everything that had to be written."""
        return not self._waiting

    @contextmanager
    def bridge(self) -> Iterator[None]:
        """Suppress the body's error if the store, or its disk, cannot be written now."""
        try:
            yield
        except StoreUnavailable as error:
            self._note(str(error))
            if self.is_leaving and isinstance(error, StoreFull):
                give_up_reserve(self._store)
        except OSError as error:
            if error.errno not in _FULL:
                raise
            self._note(f"{error.filename or 'A file'} cannot be written ({error.strerror}).")

    def write(self, what: Hashable, act: Callable[[], object]) -> None:
        """Write now, or as soon as it is possible.

        Args:
            what: The name of the write; it replaces a waiting one of the same name.
            act: The function that writes.
        """
        self._waiting.pop(what, None)
        self._waiting[what] = act
        self.flush()

    def flush(self) -> None:
        """Do the waiting writes, the oldest first."""
        if not self._waiting:
            return
        with self.bridge():
            for what, act in [*self._waiting.items()]:
                try:
                    act()
                except StoreUnavailable:
                    raise
                except BaseException:  # it would fail again and again
                    del self._waiting[what]
                    raise
                del self._waiting[what]

    def turn(self, now: float) -> None:
        """Begin a turn: do waiting writes, log changes, renew the reserve.

        Args:
            now: Seconds of the monotonic clock.
        """
        if self._trouble and not self._logged:
            log.error("%s Messages of ranks wait with them.", self._trouble)
        elif self._logged and not self._trouble:
            log.info("The store can be written again.")
        self._logged, self._trouble = self._trouble, ""
        self.flush()
        if not self.is_leaving and now - self._kept >= RESERVE_SECONDS:
            self._kept = now
            keep_reserve(self._store)

    def _note(self, trouble: str) -> None:
        self._trouble = self._trouble or trouble
