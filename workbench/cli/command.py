"""The commands: each parses, asks and shows."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from shlex import quote
from typing import Any

import click
from rich.console import Console

from workbench.cli import listing
from workbench.cli.chart import check_chart_path, draw_chart
from workbench.cli.demo import run_demo
from workbench.cli.follow import TerminalView, exit_code, wait_down, wait_ready
from workbench.cli.logs import print_output, print_supervisor_log
from workbench.cli.options import (
    Commands,
    cluster_option,
    json_option,
    no_wait_option,
    oversubscribe_option,
    run_options,
)
from workbench.cli.screen import screen_for
from workbench.core.cluster import check_cluster_name
from workbench.core.job import SUFFIXES, Job, parse_job
from workbench.core.run import Run, RunKind, RunState
from workbench.errors import InputError, StateError
from workbench.store import Store
from workbench.store.wishes import (
    ask_cluster,
    ask_doctor,
    ask_down,
    ask_run,
    script_source,
)
from workbench.view.care import Care, keep_awake
from workbench.view.following import POLL_SECONDS, follow
from workbench.view.interrupts import Interrupts
from workbench.view.listing import comparison_table, runs_table
from workbench.view.phrases import count, duration, state_line, summary
from workbench.view.record import curves_of
from workbench.view.stop import ask_stop, stop_line

WIDE = 240  # columns for a file or a pipe, where nothing is gained by folding


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="workbench", message="workbench %(version)s")
def main() -> None:
    """Train on every MPI rank, from a shell; the same wishes as in a notebook."""


@main.command()
@click.argument("ranks", type=int, required=False)
@oversubscribe_option
@no_wait_option
@cluster_option
def up(ranks: int | None, oversubscribe: bool, no_wait: bool, cluster: str) -> None:
    """Start a cluster of RANKS ranks on this machine."""
    with Store() as store:
        ask_cluster(store, ranks, cluster=cluster, oversubscribe=oversubscribe)
        if no_wait:
            click.echo(f"Asked for cluster {cluster!r}; `workbench status` shows it.")
        else:
            _say_ready(store, cluster)


@main.command()
@click.argument("ranks", type=int)
@oversubscribe_option
@no_wait_option
@cluster_option
def resize(ranks: int, oversubscribe: bool, no_wait: bool, cluster: str) -> None:
    """Give a cluster that is up another number of RANKS."""
    with Store() as store:
        wish = store.cluster_wish(check_cluster_name(cluster))
        if wish is None or not wish.up:
            raise StateError(f"Cluster {cluster!r} is not up; `workbench up {ranks}` starts it.")
        ask_cluster(store, ranks, cluster=cluster, oversubscribe=oversubscribe)
        if no_wait:
            click.echo(f"Asked for {count(ranks, 'rank')}; `workbench status` shows them.")
        else:
            _say_ready(store, cluster)


@main.command()
@no_wait_option
@cluster_option
def down(no_wait: bool, cluster: str) -> None:
    """Take a cluster down; its unfinished runs are stopped."""
    with Store() as store:
        ask_down(store, cluster=check_cluster_name(cluster))
        if no_wait:
            click.echo(f"Asked for cluster {cluster!r} to be gone.")
            return
        with _waiting(f"Taking cluster {cluster!r} down") as say:
            wait_down(store, cluster, say)
        click.echo(f"Cluster {cluster!r} is down; nothing of it is left running.")


@main.command(context_settings={"allow_interspersed_args": False})
@run_options
@click.argument("script")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@click.pass_context
def run(ctx: click.Context, /, script: str, arguments: tuple[str, ...], **given: Any) -> int:
    """Run SCRIPT, or a job file (.toml, .json), on every rank and show how it goes.

    What stands after SCRIPT is the script's; after a job file, options stand that change it.
    The cluster is started if need be, and stays up.
    """
    job = Job(script=script, arguments=arguments)
    if script.endswith(SUFFIXES):
        job = parse_job(_text(script), script)
        given |= _options_after(ctx, arguments)
    with Store() as store, Interrupts() as interrupts:
        path, source = script_source(job.script)
        parameters = {**job.parameters, **dict(given["parameters"])}
        cluster = given["cluster"] or job.cluster
        before = store.cluster_wish(cluster)
        wish = ask_run(
            store,
            kind=RunKind.SCRIPT,
            source=source,
            path=path,
            arguments=job.arguments,
            cluster=cluster,
            name=given["name"] or job.name,
            parameters=tuple(parameters.items()),
            environment=tuple(job.environment.items()),
            ranks=job.ranks if given["ranks"] is None else given["ranks"],
            oversubscribe=given["oversubscribe"] or job.oversubscribe,
            grace=job.grace if given["grace"] is None else given["grace"],
            wall_clock_limit=given["wall_clock_limit"] or job.wall_clock_limit,
        )
        if given["background"]:
            click.echo(f"Run {wish.name!r} is queued; `workbench logs -f` follows it.")
            return 0
        started = before is None or not before.up
        return _attend(store, store.run(wish.id), interrupts, started)


@main.command()
@json_option
@click.option("--cluster", metavar="NAME", help="Only this cluster.")
def status(as_json: bool, cluster: str | None) -> None:
    """Show clusters, their ranks, and what runs."""
    with Store() as store:
        names = [cluster] if cluster else [wish.name for wish in store.clusters()]
        if cluster and store.cluster_wish(cluster) is None:
            raise StateError(
                f"There is no cluster called {cluster!r}; `workbench status` lists them."
            )
        for name in names:
            keep_awake(store, name)
        unfinished = [run for name in names for run in store.unfinished(name)]
        if as_json:
            click.echo(listing.clusters_json(store, names, unfinished))
        elif names:
            _output().print(listing.clusters_table(store, names, unfinished, time.time()))
        else:
            click.echo("There is no cluster yet; `workbench up` starts one.")


@main.command()
@click.argument("names", nargs=-1)
@click.option("--limit", type=click.IntRange(min=1), default=20, help="How many to list.")
@click.option("--plot", type=Path, metavar="FILE.png", help="Draw the curves of NAMES into a file.")
@json_option
def runs(names: tuple[str, ...], limit: int, plot: Path | None, as_json: bool) -> None:
    """List the newest runs; with NAMES (or ids), show these side by side."""
    with Store() as store:
        if plot is not None:
            check_chart_path(plot)
        found = [store.run(name) for name in dict.fromkeys(names)] or store.runs(limit=limit)
        if not found:
            click.echo("[]" if as_json else "There are no runs yet; `workbench run` starts one.")
            return
        if as_json:
            click.echo(listing.runs_json(store, found))
        elif names:
            _output().print(listing.text_table(comparison_table(store, found, time.time())))
        else:
            _output().print(listing.text_table(runs_table(store, found, time.time())))
        if plot is not None:
            drawn = found if names else found[:1]
            draw_chart({run.wish.name: curves_of(store, run) for run in drawn}, plot)
            click.echo(f"Drew {', '.join(run.wish.name for run in drawn)} into {plot}.", err=True)


@main.command()
@click.argument("run", required=False)
@click.option("-f", "--follow", "going_on", is_flag=True, help="Go on until the run has ended.")
@click.option("--rank", type=int, metavar="N", help="Only what this rank wrote.")
@click.option("--supervisor", is_flag=True, help="What supervisor and engines wrote instead.")
@cluster_option
def logs(run: str | None, going_on: bool, rank: int | None, supervisor: bool, cluster: str) -> None:
    """Print what the ranks wrote in RUN, or in the newest run."""
    with Store() as store:
        if supervisor:
            print_supervisor_log(check_cluster_name(cluster), going_on)
            return
        if run is None and not store.runs(cluster, limit=1):
            raise StateError(f"Nothing has run on cluster {cluster!r} yet; `workbench run` does.")
        found = store.run(run) if run else store.runs(cluster, limit=1)[0]
        if rank is not None and not 0 <= rank < max(1, found.fact.ranks):
            ranks = count(found.fact.ranks, "rank")
            raise InputError(f"Run {found.wish.name!r} has {ranks}, counted from 0; not {rank}.")
        print_output(store, found, rank, going_on)


@main.command()
@click.argument("run", required=False)
@no_wait_option
@cluster_option
def stop(run: str | None, no_wait: bool, cluster: str) -> None:
    """Stop RUN at an iteration boundary, or the run that goes on."""
    with Store() as store:
        found = ask_stop(store, run, cluster)
        name = found.wish.name
        if no_wait or found.fact.state.ended:
            click.echo(stop_line(found))
            return
        care = Care(found.wish.cluster, time.time())
        with _waiting(f"Stopping run {name!r}") as say:
            while not (found := store.run(found.id)).fact.state.ended:
                say(str(found.fact.state))
                care.look(time.time())
                time.sleep(POLL_SECONDS)
        click.echo(f"Run {name}: {state_line(found, time.time())}")


@main.command()
@json_option
@cluster_option
def doctor(as_json: bool, cluster: str) -> int:
    """Look for what stands in the way on this machine, and name the remedies."""
    findings = ask_doctor(check_cluster_name(cluster))
    if as_json:
        click.echo(listing.findings_json(findings))
    else:
        _output().print(listing.findings_table(findings))
    return int(any(finding.ok is False for finding in findings))


@main.command()
@click.option("--ranks", type=int, metavar="N", help="How many; 2, if not.")
@click.option("--keep", is_flag=True, help="Leave the cluster up afterwards.")
def demo(ranks: int | None, keep: bool) -> int:
    """Train a small network on real images, on a cluster of its own."""
    with Store() as store:
        return run_demo(store, screen_for(_output(), _notes()), ranks, keep)


def _attend(store: Store, run: Run, interrupts: Interrupts, started: bool) -> int:
    """Follow a run to its end and return the exit code.

    Args:
        store: Where the run is.
        run: The run.
        interrupts: The first of them asks for the run to stop.
        started: Whether the cluster was started for it, so that someone may forget it.
    """
    try:
        with screen_for(_output(), _notes()) as screen:
            run = follow(store, TerminalView(run, screen), interrupts=interrupts)
    except KeyboardInterrupt:
        again = f"`workbench logs -f {quote(run.wish.name)}` follows it again"
        click.echo(f"Left run {run.wish.name!r}; {again}.", err=True)
        return 130
    lines = summary(run, store.final_values(run.id), store.path.parent, time.time())
    ended_well = run.fact.state in (RunState.FINISHED, RunState.STOPPED)
    for line in lines if ended_well else lines[1:]:  # of the others an error tells
        click.echo(line, err=True)
    if started:
        down = f"`workbench down --cluster {run.wish.cluster}`"
        click.echo(f"Cluster {run.wish.cluster!r} stays up; {down} ends it.", err=True)
    return exit_code(run)


def _say_ready(store: Store, cluster: str) -> None:
    began = time.monotonic()
    with _waiting(f"Cluster {cluster!r}") as say:
        fact = wait_ready(store, cluster, say)
    taken = duration(time.monotonic() - began)
    click.echo(f"Cluster {cluster!r} is ready: {count(fact.ranks, 'rank')}, after {taken}.")


@contextmanager
def _waiting(what: str) -> Iterator[Callable[[str], None]]:
    """Show what is waited for, until it is there or the person leaves."""
    try:
        with _notes().status(f"{what} …") as shown:
            yield lambda state: shown.update(f"{what}: {state}")
    except KeyboardInterrupt:
        click.echo(f"{what}: goes on without you; `workbench status` shows it.", err=True)
        raise


def _options_after(ctx: click.Context, words: tuple[str, ...]) -> dict[str, Any]:
    """Read our options where they stand behind a job file."""
    command = click.Command("run", params=[p for p in run.params if isinstance(p, click.Option)])
    with command.make_context(ctx.info_name, list(words), parent=ctx.parent) as inner:
        source = inner.get_parameter_source
        return {
            name: value
            for name, value in inner.params.items()
            if source(name) is not click.core.ParameterSource.DEFAULT
        }


def _text(path: str) -> str:
    try:
        return Path(path).expanduser().read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not UTF-8 text"
        raise InputError(f"The job file {path} cannot be read ({reason}).") from error


def _output() -> Console:
    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=WIDE)


def _notes() -> Console:
    return Console(stderr=True, highlight=False)
