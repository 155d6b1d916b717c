"""The crates themselves: a file lists them, and their processes are processes of this machine."""

import dataclasses
import json
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from uuid import uuid4

from workbench.cloud.hosts.local_session import LocalSession, end_processes
from workbench.core.fleet.cloud_errors import ErrorKind
from workbench.core.fleet.model import Machine, MachineState, Needs, Offer, Purchase
from workbench.core.fleet.node_provider import CLUSTER, ClusterContext, NodeProvider
from workbench.core.world.world import NODE_VARIABLE, Host
from workbench.errors import CloudError, MachineError

OFFER = Offer("crate", "east", price=0.25, vcpus=2, memory=8.0, slots=1, network=1.0)
BIG = dataclasses.replace(OFFER, type="crate.big", price=0.5, gpus=1, gpu="abacus", memory=32.0)


class Crates(NodeProvider):
    """The crates of one user.

    Args:
        folder: Of the list of crates.
        yard: Where new ones are.
    """

    def __init__(
        self, folder: Path, yard: str = "east", clock: Callable[[], float] = time.time
    ) -> None:
        self._folder = folder
        self._offers = [dataclasses.replace(offer, zone=yard) for offer in (OFFER, BIG)]
        self._clock = clock

    def offers(self, needs: Needs, history_seconds: float = 0.0) -> tuple[Offer, ...]:
        past = ((self._clock() - history_seconds, OFFER.price),) if history_seconds else ()
        return tuple(
            dataclasses.replace(offer, history=past)
            for offer in self._offers
            if offer.gpus >= needs.gpus and (not needs.types or offer.type in needs.types)
        )

    def buy(self, purchase: Purchase, user_data: str, tags: Sequence[tuple[str, str]]) -> None:
        offer = next(one for one in self._offers if one.type in purchase.types)
        if 0 < purchase.max_price < offer.price:
            raise CloudError(
                f"A crate costs ${offer.price}/h", ErrorKind.PRICE, remedy="raise the max price."
            )
        crates = self._read()
        if any(crate.token == purchase.token for crate in crates):
            return
        for _ in range(purchase.count):
            address = f"127.88.0.{len(crates) + 1}"
            crates.append(
                Machine(
                    f"crate-{uuid4().hex[:12]}",
                    MachineState.RUNNING,
                    address,
                    address,
                    offer.type,
                    offer.zone,
                    offer.price,
                    offer.slots,
                    launched=self._clock(),
                    token=purchase.token,
                    tags=(*tags, (CLUSTER, purchase.cluster)),
                )
            )
        self._write(crates)

    def machines(self, cluster: str = "") -> tuple[Machine, ...]:
        return tuple(one for one in self._read() if cluster in ("", dict(one.tags)[CLUSTER]))

    def end(self, ids: Sequence[str]) -> None:
        if not ids:
            return
        gone = {"state": MachineState.GONE, "price": 0.0, "ended": self._clock()}
        self._write(
            [dataclasses.replace(one, **gone) if one.id in ids else one for one in self._read()]
        )
        end_processes(NODE_VARIABLE, {*ids})

    def open(self, machine: Machine) -> LocalSession:
        def is_up() -> bool:
            return any(
                one.id == machine.id and one.state is MachineState.RUNNING for one in self._read()
            )

        if not is_up():
            raise MachineError(f"The crate {machine.id} is gone", "buy another one.")
        host, environment = Host(machine.address, machine.slots), {NODE_VARIABLE: machine.id}
        return LocalSession(host, self._folder / machine.id, environment, is_up)

    def _read(self) -> list[Machine]:
        path = self._folder / "crates.json"
        found = json.loads(path.read_text()) if path.exists() else []
        return [
            Machine(
                **{
                    **one,
                    "state": MachineState(one["state"]),
                    "tags": tuple((name, value) for name, value in one["tags"]),
                }
            )
            for one in found
        ]

    def _write(self, crates: Sequence[Machine]) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        new = self._folder / f"crates.{os.getpid()}"
        new.write_text(json.dumps([dataclasses.asdict(one) for one in crates]))
        new.replace(self._folder / "crates.json")


def open_crates(context: ClusterContext) -> Crates:
    """Return the crates of this user."""
    yard = context.wish().setting("yard", "east")
    return Crates(context.home / "crates", yard)
