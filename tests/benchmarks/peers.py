"""Other ways to several processes from a notebook, where they are installed.

Both need PyTorch, which nothing here installs. Neither can run a ChainerMN script, as neither
makes an MPI world; the equal work is a step of the same network in NumPy, with its gradients
added up over the ranks by PyTorch's gloo.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from .figures import Series
from .kernel import Kernel
from .place import Place

WORK = "same network in NumPy over gloo, without importing Chainer"
STEP = Path(__file__).parent / "scripts" / "numpy_step.py"


@dataclass(frozen=True)
class Peer:
    """One of them.

    Args:
        modules: What has to be importable.
        setup: A cell that is not timed.
        magic: What stands above the work.
        launch: What stands below it; ``{path}`` is where the first iteration is written down.
        finish: A cell that ends its processes.
    """

    label: str
    modules: tuple[str, ...]
    setup: str
    magic: str
    launch: str
    finish: str = "pass"

    def missing(self) -> list[str]:
        """Return the modules that are not there."""
        return [name for name in self.modules if importlib.util.find_spec(name) is None]


PEERS = (
    Peer(
        "accelerate.notebook_launcher",
        ("accelerate", "torch"),
        setup="from accelerate import notebook_launcher",
        magic="",
        launch='notebook_launcher(train, ({path!r},), num_processes=2, use_port="0")',
    ),
    Peer(
        "nbdistributed",
        ("nbdistributed", "torch"),
        setup="%load_ext nbdistributed\n%dist_init -n 2",
        magic="%%distributed\n",
        launch="train({path!r})",
        finish="%dist_shutdown",
    ),
)


def measure(place: Place, peer: Peer, rounds: int, say: Callable[[str], None]) -> Series:
    """Return the seconds from cell to first iteration, once a round after one to warm up."""
    values = []
    source = STEP.read_text(encoding="utf-8")
    with Kernel() as kernel:
        kernel.run(peer.setup)
        try:
            for number in range(rounds + 1):
                path = place.path("first.txt")
                launch = peer.launch.format(path=str(path))
                answer = kernel.run(f"{peer.magic}{source}\n\n{launch}")
                values.append(float(path.read_text(encoding="utf-8")) - answer.asked)
                say(f"round {number} of {rounds}: {peer.label} {values[-1]:.5g}")
        finally:
            kernel.run(peer.finish)
    return Series(peer.label, tuple(values[1:]))
