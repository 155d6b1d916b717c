"""From the click to the first iteration on bare Debian, where all has to be installed first."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

from tests.rehearsal.bare import debian
from tests.rehearsal.bare.debian import Debian
from tests.rehearsal.ec2.endpoint import Endpoint
from tests.rehearsal.hosts import why_not
from workbench.cloud.rented.userdata import READY

from . import place
from .figures import BenchmarkFailed, Row, Series
from .nodes import ACCOUNT, FIRST, spot_nodes, start

NODES = 3
UP_SECONDS, BAKE_SECONDS = 900.0, 600.0
SET_UP = "set up"
# In the order in which they end. Between the last two marks every wheel is installed.
PHASES = ("asked", "running", "verified", SET_UP, "data ready", "joined", FIRST)
WORKBENCH = Path(sys.executable).with_name("workbench")


def measure(here: place.Place, rounds: int, say: Callable[[str], None]) -> list[Row]:
    """Start nodes on bare Debian, bake an image of one, and start as many from that."""
    if reason := why_not() or debian.why_not():
        raise BenchmarkFailed(reason)
    base = Debian(here.path("debian"))
    base.make()
    bare: list[dict[str, float]] = []
    baked: list[dict[str, float]] = []
    for number in range(1, rounds + 1):
        with (
            place.home(here.path("home")),
            Endpoint(machines=True, bare=base.folder) as endpoint,
        ):
            os.environ.update(ACCOUNT, AWS_ENDPOINT_URL=endpoint.url)
            images: list[str] = []
            bare.append(_start(endpoint, then=lambda images=images: images.append(_bake())))
            baked.append(_start(endpoint, image=images[0]))
        for label, starts in (("bare", bare), ("baked", baked)):
            reported = ", ".join(f"{name} {starts[-1][name]:.1f}" for name in PHASES)
            say(f"round {number} of {rounds}, {NODES} nodes, {label}: {reported} s")
    note = "Debian with a disk of its own for each node, cloud-init, apt and the index; one machine"
    return [
        Row(
            f"start of {NODES} bare nodes, click to {name}",
            "s",
            Series("bare", tuple(one[name] for one in bare)),
            Series("baked image", tuple(one[name] for one in baked)),
            note=note,
        )
        for name in PHASES
    ]


def _start(
    endpoint: Endpoint, *, image: str = "", then: Callable[[], None] = lambda: None
) -> dict[str, float]:
    own = (("image", image),) if image else ()
    return start(
        spot_nodes(NODES, endpoint.ssh_source, *own),
        marks={SET_UP: partial(_are_set_up, endpoint)},
        seconds=UP_SECONDS,
        then=then,
    )


def _are_set_up(endpoint: Endpoint) -> bool:
    ready = [(root / READY.lstrip("/")).exists() for root in endpoint.roots]
    return len(ready) == NODES and all(ready)


def _bake() -> str:
    done = subprocess.run(
        [WORKBENCH, "image", "bake", "--yes"],
        check=False, capture_output=True, text=True, timeout=BAKE_SECONDS,
        stdin=subprocess.DEVNULL,
    )  # fmt: skip
    found = [word for word in done.stdout.split() if word.startswith("ami-")]
    if done.returncode or not found:
        raise BenchmarkFailed(f"No image could be baked: {done.stderr.strip() or done.stdout}")
    return found[0]
