"""The snapshots of one run on this rank: its trainings one after another, and what they resume."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from workbench.core.recovery.snapshots import SnapshotManifest, for_training, whole
from workbench.core.run.rank_protocol import (
    AtEdge,
    Event,
    TrainingBegun,
    TrainingResumed,
)
from workbench.core.run_id import run_and_attempt
from workbench.engine.reporting.run_log import RunLog
from workbench.engine.snapshot.folder import FileReader, SnapshotFolder
from workbench.engine.snapshot.saved_bytes import Bytes, SavedBytes, view
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
        self._has_overwritten = False  # what the training had before it was resumed

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
                self.log.take()  # a rank may be killed before the channel looks for something
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
        if (found := self._read(training)) is not None:
            manifest, contents, saved = found
            remarks = training.resume(manifest, contents, saved)
            self._tell(peers, training.number, manifest.iteration, remarks, training.undelivered())
        elif for_training(self._holders, training.number):
            # Whether all of it is to be paid again is for its user to say, and what a damaged one
            # has overwritten is no beginning.
            if self._insists or self._has_overwritten:
                raise StateError("None of the snapshots of this run can be read", NEW_RUN)
            why = "none of its snapshots can be read"
            self._tell(peers, training.number, 0, [f"a training starts from its beginning: {why}"])

    def _tell(
        self,
        peers: Peers,
        training: int,
        iteration: int,
        remarks: Sequence[str],
        undelivered: Sequence[Event] = (),
    ) -> None:
        """Report from where a training continues, if it is the one that the run continues.

        Args:
            undelivered: What this rank tells of those whose snapshot it is.
        """
        assert self._holders is not None
        if self.replays:
            return
        is_first = peers.rank == 0
        if training == max((one.training for one in self._holders), default=1):
            for event in (*[TrainingResumed(iteration, training)] * is_first, *undelivered):
                self.log.tell(event)
        for one in remarks if is_first else ():
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

    def _read(
        self, training: SavedTraining
    ) -> tuple[SnapshotManifest, dict[str, SavedBytes], SavedPieces | None] | None:
        """Return the newest snapshot of a training that all ranks can read; None without one.

        Its content may be in the training's own arrays already. Leaders check the pieces of a
        divided state, and other ranks read what they need of them.
        """
        assert self._holders is not None
        self._has_overwritten = False
        holders, peers, is_piece = self._holders, training.peers, training.state.is_piece
        usable = for_training(holders, training.number)
        for _, equally_old in groupby(usable, key=lambda one: one.age):
            copies = [*equally_old]
            own = [one for one in copies if peers.leader in holders[one]]
            pieces = {
                one.part: {name: file.content for name, file in found.items()}
                for one in own
                if (found := self.folder.find(one, is_piece, checks=peers.is_leader)) is not None
            }
            have = peers.gather(sorted(pieces))
            roots = _roots(copies[0].parts, {one: have[one] for one in peers.leaders})
            if not roots:
                continue
            able = [rank for rank, parts in enumerate(have) if parts]
            # What is damaged may overwrite the training's arrays if another one does so after it.
            contents = self._bring(own, able, training, checks=copies[-1] is usable[-1])
            if contents is None:
                continue
            saved = None
            if any(is_piece(one.name) for one in copies[0].files):
                from workbench.engine.snapshot.pieces import SavedPieces

                mine = {part: pieces[part] for part in have[peers.leader] if part in pieces}
                saved = SavedPieces(peers, mine, roots)
            return copies[0], contents, saved
        return None

    def _bring(
        self,
        own: Sequence[SnapshotManifest],
        able: Sequence[int],
        training: SavedTraining,
        *,
        checks: bool,
    ) -> dict[str, SavedBytes] | None:
        """Return the content of the files that all ranks read, on all ranks; None if it cannot be.

        If all ranks are able to, each reads the copy of its node: all at once, it takes them as
        long as one. Else one of them reads its copy, and sends it to all. Copies differ in what
        each trainer notes of its own time; the ranks' common state was compared when it was saved.

        Args:
            own: The copies of this node.
            able: The ranks that have one.
            checks: Whether it is checked before anything is overwritten.
        """
        state, peers = training.state, training.peers
        while able:
            is_sent = len(able) < peers.size
            root = able[0] if is_sent else peers.rank
            files: dict[str, FileReader] | None = {}
            if root == peers.rank:
                files = self.folder.find(
                    own[0], lambda name: not state.is_piece(name), checks=checks
                )
            plan = {
                name: (len(one.content), state.find_spots(name, view(one.content)))
                for name, one in (files or {}).items()
            }
            said = peers.gather(None if files is None else plan if is_sent else {})
            if None not in said:
                contents = {
                    name: state.make_room(name, nbytes, spots)
                    for name, (nbytes, spots) in (said[root] if is_sent else plan).items()
                }
                self._has_overwritten = True
                send = partial(peers.send, root=root) if is_sent else _keep
                is_right = [
                    self.folder.pour(own[0], files[name], content, send)
                    if files
                    else _receive(content, send)
                    for name, content in contents.items()
                ]
                said = peers.gather(True if all(is_right) else None)
                if None not in said:
                    return contents
            able = [rank for rank in able if said[rank] is not None]
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


def _keep(piece: Bytes) -> None:
    """Send nothing to anyone."""


def _receive(content: SavedBytes, receive: Callable[[Bytes], None]) -> bool:
    for piece in content.messages():
        receive(piece)
    return True
