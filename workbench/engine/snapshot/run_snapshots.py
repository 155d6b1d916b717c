"""The snapshots of one run on this rank: its trainings one after another, and what they resume."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from workbench.core.recovery.snapshots import SnapshotManifest, for_training, whole
from workbench.core.run.rank_protocol import (
    AtEdge,
    TrainingBegun,
    TrainingResumed,
)
from workbench.core.run_id import run_and_attempt
from workbench.engine.reporting.run_log import RunLog
from workbench.engine.snapshot.folder import SnapshotFolder
from workbench.engine.snapshot.writer import SnapshotWriter
from workbench.errors import StateError

if TYPE_CHECKING:
    from workbench.engine.boundary import Edge
    from workbench.engine.snapshot.peers import Peers
    from workbench.engine.snapshot.pieces import SavedPieces
    from workbench.engine.snapshot.saved_training import SavedTraining
    from workbench.engine.snapshot.state import SavedState

NEW_RUN = "start it as a new run."


class RunSnapshots:
    """The snapshots of one run on this rank.

    Args:
        folder: For the snapshots, on this rank's host; ``~`` is the home directory.
        run: The run's id.
        attempt: The number of this start of the run.
        resumes: Whether the run continues from its newest snapshot.
        begins_again: Whether it begins at iteration 0 if there is none.
        insists: Whether it ends with an error if none can be read.
        replays: Whether it repeats the run whose snapshots these are: its trainings end where they
            ended then, and none is saved.
        edge: Where this rank waits before the training that the run continues, and becomes one of
            its next attempt; None if it does not.
        losses: How often the run has lost its ranks.
        lived: Seconds from its first attempt's beginning until this one's.
    """

    def __init__(
        self,
        log: RunLog,
        folder: str,
        *,
        run: str,
        attempt: int,
        generation: int,
        resumes: bool,
        begins_again: bool = False,
        insists: bool = False,
        replays: bool = False,
        edge: Edge | None = None,
        losses: int = 0,
        lived: float = 0.0,
    ) -> None:
        self.log, self.run, self.attempt, self.generation = log, run, attempt, generation
        self.folder = SnapshotFolder(Path(folder).expanduser(), run)
        self.writer = SnapshotWriter(self.folder, self._complain)
        self.resumes, self.replays, self._edge = resumes, replays, edge
        self._begins_again, self._insists = begins_again, insists
        self._losses, self._lived, self._begun = losses, lived, time.monotonic()
        self._trainings = 0
        self.is_asked = False
        """Whether the supervisor wants a snapshot soon; that of rank 0 counts."""
        self._holders: dict[SnapshotManifest, list[int]] | None = None

    @property
    def lifetime(self) -> float:
        """The mean seconds between the losses that the run has had so far; infinite for none."""
        lived = self._lived + time.monotonic() - self._begun
        return lived / self._losses if self._losses else math.inf

    @property
    def following(self) -> int:
        """The number of the training that begins next, from 1."""
        return self._trainings + 1

    def begin_loop(self, state: SavedState, peers: Peers) -> SavedTraining:
        """Prepare to save a loop that is written by hand, and resume it.

        Collective over the run's ranks.

        Raises:
            StateError: The run resumes, and there is nothing that it could resume from.
        """
        from workbench.engine.snapshot.saved_training import SavedTraining

        training = SavedTraining(self, state, self.following, peers)
        self.begin(training)
        return training

    def begin(self, training: SavedTraining) -> None:
        """Save the training that is ``following``, and resume it.

        Collective over the run's ranks.

        Raises:
            StateError: The run resumes, and there is nothing that it could resume from.
        """
        self._trainings += 1
        if self._trainings == 1 and not self.replays:
            self._claim(training.peers)
            if training.peers.rank == 0 and not self.resumes:
                self.log.tell(TrainingBegun())
        if self.resumes:
            self._resume(training, training.peers)

    def close(self) -> None:
        """Wait until other processes can read the last snapshot."""
        self.writer.wait_until_readable()

    def refuse(self, why: str) -> None:
        """Note that a training begins which cannot be saved.

        Args:
            why: A clause, such as "its updater has no optimizer".

        Raises:
            StateError: The run resumes, and this may be what it is to continue.
        """
        if not self.resumes:
            return
        if self._edge is not None or not self.folder.manifests():
            raise StateError(f"This training cannot be resumed, because {why}", NEW_RUN)
        self.remark(f"a training starts from its beginning, because {why}")

    def _resume(self, training: SavedTraining, peers: Peers) -> None:
        if self._holders is None:
            self._holders = self._present(peers)
        if self._edge is not None and not self._has_ended(training.number):
            self._wait_at(self._edge, peers)
        if not self._holders and self._begins_again:
            self._tell(peers, training.number, 0, [])
            return
        if not self._holders:
            raise StateError("No complete snapshot of this run is on its nodes", NEW_RUN)
        for manifest, contents, saved in self._complete(training.number, peers, training.is_piece):
            remarks = training.resume(manifest, contents, saved)
            self._tell(peers, training.number, manifest.iteration, remarks)
            return
        if for_training(self._holders, training.number):
            if self._insists:  # whether all of it is to be paid again is for its user to say
                raise StateError("None of the snapshots of this run can be read", NEW_RUN)
            why = "none of its snapshots can be read"
            self._tell(peers, training.number, 0, [f"a training starts from its beginning: {why}"])

    def _tell(self, peers: Peers, training: int, iteration: int, remarks: Sequence[str]) -> None:
        """Report from where a training continues, if it is the one that the run continues."""
        assert self._holders is not None
        if peers.rank == 0 and not self.replays:
            if training == max((one.training for one in self._holders), default=1):
                self.log.tell(TrainingResumed(iteration, training))
            for one in remarks:
                self.remark(one)

    def _present(self, peers: Peers) -> dict[SnapshotManifest, list[int]]:
        """Return all snapshots, with the ranks that can read each."""
        holders: dict[SnapshotManifest, list[int]] = {}
        present = self.folder.manifests() if peers.is_leader else []
        for rank, manifests in enumerate(peers.gather(present)):
            for one in manifests:
                holders.setdefault(one, []).append(rank)
        return {one: holders[one] for one in whole(holders)}

    def _has_ended(self, training: int) -> bool:
        return any(one.final and one.training == training for one in self._holders or ())

    def _wait_at(self, edge: Edge, peers: Peers) -> None:
        """Wait with all ranks until the ranks of the last attempt have saved and left."""
        self._edge = None
        peers.gather(None)
        if peers.rank == 0:
            self.log.tell(AtEdge())
        self.log = edge.wait()
        self.attempt, self.replays = run_and_attempt(self.log.run)[1], False
        self._claim(peers)
        self._holders = self._present(peers)

    def _claim(self, peers: Peers) -> None:
        if peers.is_leader:
            with suppress(OSError):  # the first snapshot says it
                self.folder.claim(self.attempt)

    def _complete(
        self, training: int, peers: Peers, is_piece: Callable[[str], bool]
    ) -> Iterator[tuple[SnapshotManifest, dict[str, memoryview], SavedPieces | None]]:
        """Yield the snapshots of a training that can be read, on all ranks, the newest first.

        Each rank whose node has a copy reads that one: all at once, it takes them as long as one
        rank, and the others get nothing from it. Copies differ in what each trainer notes of its
        own time, and the ranks' common state was compared when they were saved. Leaders check the
        pieces of a divided state, and other ranks read what they need of them.

        Args:
            is_piece: Whether a file has pieces.
        """
        assert self._holders is not None
        holders = self._holders
        for _, equally_old in groupby(for_training(holders, training), key=lambda one: one.age):
            copies = [*equally_old]
            is_divided = any(is_piece(one.name) for one in copies[0].files)
            if not is_divided and {*peers.leaders} - {at for one in copies for at in holders[one]}:
                for own in copies:
                    if (contents := self._send(own, holders[own], peers)) is not None:
                        yield own, contents, None
                        break
                continue
            names = [one.name for one in copies[0].files if not is_piece(one.name)]
            read: dict[int, dict[str, memoryview]] = {}
            for own in (one for one in copies if peers.leader in holders[one]):
                contents = self.folder.read(own, _none if peers.is_leader else is_piece)
                if contents is not None and [one for one in contents if not is_piece(one)] == names:
                    read[own.part] = contents
            have = peers.gather(sorted(read))
            roots = _roots(copies[0].parts, {one: have[one] for one in peers.leaders})
            if not (roots if is_divided else any(have)):
                continue
            contents = next(iter(read.values()), None)
            if not all(have):
                is_everywhere = all(have[leader] for leader in peers.leaders)
                root = next(rank for rank, parts in enumerate(have) if parts)
                share = peers.share_on_node if is_everywhere else partial(peers.share, root=root)
                gives = peers.is_leader if is_everywhere else peers.rank == root
                given = contents if gives else None
                contents = {one: share(given[one] if given else None) for one in names}
            assert contents is not None
            saved = None
            if is_divided:
                from workbench.engine.snapshot.pieces import SavedPieces

                mine = {part: read[part] for part in have[peers.leader] if part in read}
                saved = SavedPieces(peers, mine, roots)
            yield copies[0], contents, saved

    def _send(
        self, manifest: SnapshotManifest, holders: Sequence[int], peers: Peers
    ) -> dict[str, memoryview] | None:
        """Return the content of a snapshot's files, which some nodes lack, on all ranks.

        Args:
            holders: The ranks that have this copy; the first one that can read it sends it.
        """
        for root in holders:
            found: dict[str, memoryview] = {}
            for file in manifest.files:
                chunks = self.folder.chunks(manifest, file) if peers.rank == root else None
                content = peers.share_file(file.nbytes, chunks, root)
                if content is None:
                    break
                found[file.name] = content
            else:
                return found
        return None

    def remark(self, text: str) -> None:
        """Write a line for the user."""
        print(f"workbench: {text}.", file=sys.stderr, flush=True)

    def _complain(self, error: Exception) -> None:
        # Called by the writer's thread, whose output has no run of its own.
        text = error.strerror if isinstance(error, OSError) and error.strerror else repr(error)
        self.log.note(
            "stderr",
            f"workbench: a snapshot could not be written to {self.folder.path} ({text:.300}); "
            "the training continues.\n",
        )


def _roots(parts: int, have: Mapping[int, Sequence[int]]) -> dict[int, int]:
    """Return the rank that gives each part, which is little for each; empty if one is nowhere.

    Args:
        have: The parts that each rank can give.
    """
    roots: dict[int, int] = {}
    for part in range(parts):
        able = [rank for rank, there in have.items() if part in there]
        if not able:
            return {}
        roots[part] = min(able, key=[*roots.values()].count)
    return roots


def _none(name: str) -> bool:
    return False
