"""Train the demo script on its own cluster, show it, and leave nothing running."""

from __future__ import annotations

import importlib.util
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from shlex import quote
from types import FrameType

import click

from workbench.cli.terminal import RunScreen, TerminalRunView, exit_code
from workbench.core.run.metrics import group_names, seconds_taken
from workbench.core.run.model import Run, RunKind
from workbench.core.run.run_options import RunOptions
from workbench.core.units import count
from workbench.requests.cluster import ask_down, local_slots, remove_cluster
from workbench.requests.run import ask_run, script_source
from workbench.store import Store
from workbench.store.paths import cluster_directory, run_directory
from workbench.view.cluster_changes import wait_down
from workbench.view.following import Interrupts, follow
from workbench.view.pictures.curve_picture import draw_chart
from workbench.view.run_record import RunRecord
from workbench.view.text import duration, place

CLUSTER = "demo"
DEFAULT_RANKS = 2
SCRIPTS = Path(__file__).parents[1] / "demo"
# What trains, the script that does it, and what it reports as its accuracy; the first one that is
# installed is used.
DEMOS = (
    ("chainer", "Chainer", "digits.py", "validation/main/accuracy"),
    ("torch", "PyTorch", "digits_torch.py", "accuracy"),
    ("mpi4py", "NumPy", "digits_numpy.py", "accuracy"),
)


def run_demo(store: Store, screen: RunScreen, ranks: int | None, keep: bool) -> int:
    """Run the demo and return the exit code.

    Args:
        store: Where the run is kept.
        screen: Where it is shown.
        ranks: Requested number; None for the default.
        keep: Whether the cluster stays up.
    """
    title, script, accuracy = next(
        rest for package, *rest in DEMOS if importlib.util.find_spec(package)
    )
    path, source = script_source(str(SCRIPTS / script))
    folder = cluster_directory(CLUSTER)
    asked = DEFAULT_RANKS if ranks is None else ranks
    with Interrupts() as interrupts, _hold_signals() as release:
        wish = ask_run(
            store,
            RunOptions(ranks=asked, arguments=("--out", str(folder / "result"))),
            kind=RunKind.SCRIPT,
            source=source,
            cluster=CLUSTER,
            name="demo",
            path=path,
            folder=str(folder),
            oversubscribe=ranks is None and local_slots() < asked,
        )
        try:
            release()
            click.echo(f"Starting {count(asked, 'rank')} to train on digits with {title}.")
            with screen:
                view = TerminalRunView(store.run(wish.id), screen)
                run = follow(store, view, interrupts=interrupts)
            _tell(store, view.record, run, accuracy)
        finally:
            _leave(store, keep)
        return exit_code(run)


def _tell(store: Store, record: RunRecord, run: Run, accuracy: str) -> None:
    name, taken = run.wish.name, duration(seconds_taken(run.fact, run.fact.ended))
    reached = store.reports.final_values(run.id).get(accuracy)
    if reached is not None and run.fact.state == "finished":
        ranks = count(run.fact.ranks, "rank")
        click.echo(f"Test accuracy {100 * reached:.1f} %, after {taken} on {ranks}.")
    if group_names(record.curves):
        picture = run_directory(run.id) / "curve.png"
        picture.parent.mkdir(parents=True, exist_ok=True)
        draw_chart({name: record.curves}, picture)
        click.echo(f"The curve is in {place(picture)}")
    click.echo(f"The run is saved as {name!r} in {place(store.path.parent)}; ", nl=False)
    click.echo(f"show it again with `workbench runs {quote(name)}`.")


def _leave(store: Store, keep: bool) -> None:
    if keep:
        click.echo(
            f"Cluster {CLUSTER!r} stays up; delete it with `workbench delete --cluster {CLUSTER}`."
        )
        return
    with Interrupts():  # a second Ctrl-C must not interrupt this
        ask_down(store, cluster=CLUSTER)
        wait_down(store, CLUSTER, lambda state: None)
        remove_cluster(store, cluster=CLUSTER)
    click.echo(f"Cluster {CLUSTER!r} is deleted, and all its processes have ended.")


@contextmanager
def _hold_signals() -> Iterator[Callable[[], None]]:
    """Handle SIGTERM and SIGHUP like Ctrl-C, from the call of what is yielded on.

    One that arrives before waits for it: the run is then known, and its cluster will be deleted.
    """
    held: list[int] = []
    is_held = True

    def leave(number: int, frame: FrameType | None) -> None:
        if is_held:
            held.append(number)
        else:
            raise SystemExit(128 + number)

    def release() -> None:
        nonlocal is_held
        is_held = False
        if held:
            raise SystemExit(128 + held[0])

    former = {number: signal.signal(number, leave) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield release
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)
