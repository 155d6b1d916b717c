"""The pieces of a divided state: what each rank has, who saves it, and who reads it again.

Ranks send their pieces to the leaders that save them while the training waits, so the bytes that
the training overwrites next are on two nodes before it continues. One leader reads each part of a
snapshot, and every rank gets what its own pieces need, on whatever number of ranks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from workbench.core.recovery.parts import StatePart, divide
from workbench.core.recovery.snapshots import Age
from workbench.engine.snapshot.folder import Write
from workbench.engine.snapshot.peers import Peers
from workbench.engine.snapshot.saved_bytes import Bytes, new_memory


@dataclass(frozen=True)
class HeldPiece:
    """What a rank has of one divided array.

    Args:
        what: Tells the format what it is; it can be pickled.
    """

    nbytes: int
    what: Any


Copy = Callable[[Sequence[str], Mapping[str, Bytes]], dict[str, Bytes]]
_ALIGNED = 64

Layout = Mapping[str, HeldPiece]
"""A rank's pieces by name; pieces of the same name are equal."""


@dataclass(frozen=True)
class PieceRequest:
    """Some bytes of a part.

    Args:
        what: Tells the format which.
    """

    part: int
    nbytes: int
    what: Any


class PieceFormat:
    """How a framework describes, copies, writes and reads pieces; divided arrays are its own."""

    def describe(self, divided: Mapping[str, Any]) -> Layout:
        """Return the pieces that this rank has of divided arrays; the same object if unchanged."""
        raise NotImplementedError

    def copy(
        self, divided: Mapping[str, Any], names: Sequence[str], places: Mapping[str, Bytes]
    ) -> dict[str, Bytes]:
        """Begin to copy pieces; an earlier copy is overwritten.

        Args:
            places: Where some are copied to; others get memory of this format's own.
        """
        raise NotImplementedError

    def settle(self) -> None:
        """Wait until what was copied has come; called in any thread."""

    def files(self, part: int, layout: Layout, pieces: Mapping[str, Bytes]) -> dict[str, Write]:
        """Return what writes the files of a part.

        Args:
            layout: The pieces of all ranks.
            pieces: Those of the part.
        """
        raise NotImplementedError

    def is_own(self, file: str) -> bool:
        """Return whether a file of a snapshot is one with pieces, which few ranks need whole."""
        raise NotImplementedError

    def read(self, divided: Mapping[str, Any], saved: SavedPieces) -> None:
        """Overwrite this rank's pieces of divided arrays with what was saved; collective."""
        raise NotImplementedError


class PieceExchange:
    """Brings the pieces of all ranks to the leaders that save them."""

    def __init__(self, peers: Peers) -> None:
        self._peers, self._nodes = peers, peers.ranks_of_nodes
        self._layouts: list[Layout] = [{} for _ in range(peers.size)]
        self._known: Layout = {}
        self._received: dict[str, Bytes] = {}
        self._places: dict[str, Bytes] = {}
        self.parts: tuple[StatePart, ...] = ()
        """What is saved together, and where."""
        self.layout: Layout = {}
        """The pieces of all ranks."""

    def news(self, layout: Layout) -> Layout | None:
        """Return what this rank reports to the others of its pieces; None if they know it."""
        if layout is self._known:
            return None
        self._known = layout
        return layout

    def learn(self, said: Sequence[Layout | None]) -> None:
        """Decide who saves what, from what each rank has said."""
        if all(one is None for one in said):
            return
        for rank, one in enumerate(said):
            if one is not None:
                self._layouts[rank] = one
        self.layout = {name: piece for one in self._layouts for name, piece in one.items()}
        self.parts = divide(
            [
                {name: one.nbytes for rank in ranks for name, one in self._layouts[rank].items()}
                for ranks in self._nodes
            ]
        )
        self._received = {}
        self._places = self._share_places()

    def written_by_all(self, written: Sequence[Age | None]) -> Age | None:
        """Return the age of the snapshot before, if all nodes have written their parts of it.

        Args:
            written: The age of the last one that each rank has written.
        """
        ages = {written[self._nodes[node][0]] for part in self.parts for node in part.nodes}
        return ages.pop() if len(ages) == 1 else None

    def collect(self, copy: Copy, settle: Callable[[], None]) -> dict[int, dict[str, Bytes]]:
        """Return what this rank saves of each part; collective.

        Args:
            copy: Copies pieces of this rank to places, or to memory of its own.
            settle: Waits for the copies.
        """
        me, routes = self._peers.rank, self._routes()
        names = [*dict.fromkeys(name for _, name, source, _ in routes if source == me)]
        own = copy(names, self._places)
        out, into = [], []
        found: dict[int, dict[str, Bytes]] = {}
        for number, name, source, target in routes:
            is_shared = name in self._places and self._node_of(source) == self._node_of(target)
            if source == me and target != me and not is_shared:
                out.append((target, own[name]))
            if target != me:
                continue
            if source == me:
                content = own[name]
            elif is_shared:
                content = self._places[name]
            else:
                if name not in self._received:
                    nbytes = self.layout[name].nbytes
                    self._received[name] = new_memory(nbytes)
                content = self._received[name]
                into.append((source, content))
            found.setdefault(number, {})[name] = content
        if out or self._places:
            settle()
        if self._places:
            self._peers.meet_on_node()
        self._peers.exchange(out, into)
        return found

    def _routes(self) -> list[tuple[int, str, int, int]]:
        """Return the number of each part, its pieces, the rank that has each, and who saves it."""
        return [
            (number, name, self._source(name, node), self._nodes[node][0])
            for number, part in enumerate(self.parts)
            for node in part.nodes
            for name in part.pieces
        ]

    def _share_places(self) -> dict[str, Bytes]:
        """Return memory of this node for the pieces that its leader gets from its other ranks.

        Messages of ranks that share a core take a hundred times as long.
        """
        mine, sizes = self._node_of(self._peers.rank), dict[str, int]()
        for _, name, source, target in self._routes():
            if self._node_of(source) == self._node_of(target) == mine and source != target:
                sizes[name] = -(-self.layout[name].nbytes // _ALIGNED) * _ALIGNED
        room = self._peers.shared_memory(_ALIGNED + sum(sizes.values()) if sizes else 0)
        if room is None:
            return {}
        # The first bytes are those that ranks recognize it by.
        ends = [*accumulate(sizes.values(), initial=_ALIGNED)]
        return {
            name: room[start : start + self.layout[name].nbytes]
            for name, start in zip(sizes, ends, strict=False)
        }

    def _node_of(self, rank: int) -> int:
        return next(at for at, ranks in enumerate(self._nodes) if rank in ranks)

    def _source(self, name: str, node: int) -> int:
        """Return the rank that sends a piece to a node's leader: one of the node, if it can."""
        ranks: Sequence[int] = (*self._nodes[node], *range(self._peers.size))
        return next(rank for rank in ranks if name in self._layouts[rank])


class SavedPieces:
    """The pieces of a snapshot, wherever in the run they are.

    Args:
        files: The files of the parts that this node has; those that it gives others are in memory.
        roots: The rank that gives each part to other nodes.
    """

    def __init__(
        self,
        peers: Peers,
        files: Mapping[int, Mapping[str, memoryview]],
        roots: Mapping[int, int],
    ) -> None:
        self._peers, self._files, self._roots = peers, files, roots

    def share(self, name: str) -> dict[int, memoryview]:
        """Return a small file of each part, on all ranks; collective."""
        return {
            part: self._peers.share(
                self._files[part][name] if root == self._peers.rank else None, root
            )
            for part, root in sorted(self._roots.items())
        }

    def fetch(
        self,
        requests: Sequence[PieceRequest],
        answer: Callable[[Mapping[str, memoryview], Any], Bytes],
    ) -> list[Bytes]:
        """Return what this rank asks for; collective.

        Args:
            answer: Returns what is asked for, from the files of its part.
        """
        me, out, into = self._peers.rank, [], []
        far = [one for one in requests if one.part not in self._files]
        for rank, asked in enumerate(self._peers.gather(far)):
            if rank != me:
                out += [
                    (rank, answer(self._files[one.part], one.what))
                    for one in asked
                    if self._roots[one.part] == me
                ]
        found: list[Bytes] = []
        for one in requests:
            if one.part in self._files:
                found.append(answer(self._files[one.part], one.what))
            else:
                found.append(new_memory(one.nbytes))
                into.append((self._roots[one.part], found[-1]))
        self._peers.exchange(out, into)
        return found
