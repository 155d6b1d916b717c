"""Other ways to several processes from a notebook, where they are installed.

Both need PyTorch, which nothing here installs. Neither can run a ChainerMN script, as neither
makes an MPI world; the equal work is a step of the same network in NumPy, with its gradients
added up over the ranks by PyTorch's gloo.
"""

from __future__ import annotations

import importlib.util
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from .figures import BenchmarkFailed
from .kernel import Kernel
from .place import Place, end

WORK = "same network in NumPy over gloo, without importing Chainer"
STEP = Path(__file__).parent / "scripts" / "numpy_step.py"
PATIENCE_SECONDS = 60.0


@dataclass(frozen=True)
class Peer:
    """One of them.

    Args:
        modules: What has to be importable.
        setup: A cell that is not timed.
        magic: The line above the work.
        launch: The line below it; ``{path}`` is the file for the time of the first iteration,
            ``{port}`` is free.
    """

    label: str
    modules: tuple[str, ...]
    setup: str
    magic: str
    launch: str


PEERS = (
    Peer(
        "accelerate.notebook_launcher",
        ("accelerate", "torch"),
        setup="from accelerate import notebook_launcher",
        magic="",
        launch="notebook_launcher(train, ({path!r},), num_processes=2, use_port={port})",
    ),
    Peer(
        "nbdistributed",
        ("nbdistributed", "torch"),
        # It sends to workers that have not come yet, and then waits half a minute for an answer.
        setup="%load_ext nbdistributed\n%dist_init -n 2\nimport time\ntime.sleep(20)",
        magic="%%distributed\n",
        launch="train({path!r})",
    ),
)


@contextmanager
def ready(place: Place, peer: Peer) -> Iterator[Callable[[], float]]:
    """Yield what returns the seconds from a cell to the first iteration.

    Raises:
        BenchmarkFailed: It is not installed, or did not come so far as to do one iteration.
    """
    if missing := [name for name in peer.modules if importlib.util.find_spec(name) is None]:
        raise BenchmarkFailed(f"{' and '.join(missing)} not installed")
    before = place.processes()
    try:
        with Kernel() as kernel:
            kernel.run(peer.setup, patience=PATIENCE_SECONDS)
            _once(place, peer, kernel)
            yield partial(_once, place, peer, kernel)
    finally:
        # Not by the peer's own command, which may end other people's programs by their names.
        end([process for process in place.processes() if process not in before])


def _once(place: Place, peer: Peer, kernel: Kernel) -> float:
    path = place.path("first.txt")
    launch = peer.launch.format(path=str(path), port=_free_port())
    work = STEP.read_text(encoding="utf-8")
    answer = kernel.run(f"{peer.magic}{work}\n\n{launch}", patience=PATIENCE_SECONDS)
    if not path.exists():
        said = (answer.text.strip().splitlines() or ["nothing"])[-1]
        raise BenchmarkFailed(f"the first iteration was not done; it said: {said}")
    return float(path.read_text(encoding="utf-8")) - answer.asked


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
