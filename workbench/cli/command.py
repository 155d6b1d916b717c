"""The commands: each parses, asks and shows."""

from __future__ import annotations

import time
from pathlib import Path
from shlex import quote
from typing import Any

import click

from workbench.cli import listing
from workbench.cli.chart import check_chart_path, draw_chart
from workbench.cli.consent import Consent, agree_to_keys, agree_to_nodes, renewed
from workbench.cli.demo import run_demo
from workbench.cli.fleet_options import (
    SPELLING,
    host_options,
    money_options,
    need_options,
    node_options,
    place_options,
    read_hosts,
    read_request,
    read_text,
    size_options,
    with_options,
)
from workbench.cli.follow import TerminalView, exit_code
from workbench.cli.images import image
from workbench.cli.logs import print_output, print_supervisor_log
from workbench.cli.measuring import bandwidth_command
from workbench.cli.options import (
    Commands,
    accept_option,
    cluster_option,
    json_option,
    no_wait_option,
    oversubscribe_option,
    run_options,
    yes_option,
)
from workbench.cli.planning import plan_command
from workbench.cli.renting import extend, interrupt, offers, sweep_leaks
from workbench.cli.screen import screen_for
from workbench.cli.terminal import notes, output, waiting
from workbench.core import job as job_file
from workbench.core.cluster import THIS_MACHINE, ClusterWish, check_cluster_name
from workbench.core.exchangewish import exchange_environment
from workbench.core.fleet import FleetWish, Place
from workbench.core.fleetrequest import fleet_wish
from workbench.core.hostdiagnosis import folded
from workbench.core.job import Job
from workbench.core.jobfile import SUFFIXES, parse_job
from workbench.core.run import Run, RunKind, RunState, length
from workbench.errors import InputError, StateError
from workbench.store import Store
from workbench.store.asking import ask_doctors, ask_host_doctor, ask_policy
from workbench.store.folders import checked_data, checked_output
from workbench.store.wishes import (
    ask_cluster,
    ask_down,
    ask_run,
    script_source,
)
from workbench.view.anatomy import anatomy_of
from workbench.view.care import Care, keep_awake
from workbench.view.following import POLL_SECONDS, follow
from workbench.view.interrupts import Interrupts
from workbench.view.listing import comparison_table, runs_table
from workbench.view.phrases import count, state_line, summary
from workbench.view.readiness import (
    cost_sentence,
    gone_sentence,
    ready_sentence,
    wait_down,
    wait_ready,
)
from workbench.view.record import curves_of
from workbench.view.stop import ask_stop, stop_line


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="workbench", message="workbench %(version)s")
def main() -> None:
    """Train on every MPI rank, from a shell; the same wishes as in a notebook."""


@main.command()
@click.argument("ranks", type=int, required=False)
@with_options(
    host_options, place_options, size_options, need_options, money_options, node_options,
    [accept_option, yes_option],
)  # fmt: skip
@oversubscribe_option
@no_wait_option
@cluster_option
def up(
    ranks: int | None,
    oversubscribe: bool,
    no_wait: bool,
    cluster: str,
    yes: bool,
    accept_keys: tuple[str, ...],
    **given: Any,
) -> None:
    """Start a cluster of RANKS ranks: on this machine, your hosts, or nodes from EC2.

    What it had before stands where nothing is said. What costs is shown, and asked about.
    """
    now = time.time()
    fleet = fleet_wish(read_request(given), SPELLING, now=now)
    with Store() as store:
        consent = Consent(check_cluster_name(cluster), now, yes, accept_keys, output().print)
        agreed = THIS_MACHINE if given["here"] else renewed(store, consent, fleet)
        ask_cluster(store, ranks, cluster=cluster, oversubscribe=oversubscribe, fleet=agreed)
        if no_wait:
            click.echo(f"Asked for cluster {cluster!r}; `workbench status` shows it.")
        else:
            _say_ready(store, cluster)


@main.command()
@click.argument("ranks", type=int, required=False)
@click.option("--nodes", type=int, metavar="N", help="Of nodes; 0 pays nothing and keeps all else.")
@yes_option
@oversubscribe_option
@no_wait_option
@cluster_option
def resize(
    ranks: int | None,
    nodes: int | None,
    yes: bool,
    oversubscribe: bool,
    no_wait: bool,
    cluster: str,
) -> None:
    """Give a cluster that is up another number of RANKS, or of nodes.

    What more nodes cost is shown, and asked about.
    """
    if (ranks is None) == (nodes is None):
        raise InputError("Say another number of ranks (workbench resize 4), or of --nodes.")
    asked = count(nodes, "node") if nodes is not None else count(ranks or 0, "rank")
    with Store() as store:
        wish = store.cluster_wish(check_cluster_name(cluster))
        if wish is None or not wish.up:
            start = "" if ranks is None else f" {ranks}"
            raise StateError(f"Cluster {cluster!r} is not up; `workbench up{start}` starts it.")
        if nodes is not None:
            agree_to_nodes(store, wish, nodes, time.time(), yes=yes)
        else:
            ask_cluster(store, ranks, cluster=cluster, oversubscribe=oversubscribe)
        if no_wait:
            click.echo(f"Asked for {asked}; `workbench status` shows them.")
        else:
            _say_ready(store, cluster)


@main.command()
@no_wait_option
@cluster_option
def down(no_wait: bool, cluster: str) -> None:
    """Take a cluster down, delete all that it was lent, and stop its unfinished runs."""
    with Store() as store:
        ask_down(store, cluster=check_cluster_name(cluster))
        if no_wait:
            click.echo(f"Asked for cluster {cluster!r} to be gone.")
            return
        wish = store.cluster_wish(cluster)
        assert wish is not None
        with waiting(f"Taking cluster {cluster!r} down", lines=_has_nodes(wish)) as say:
            spent = wait_down(store, cluster, say)
        click.echo(gone_sentence(wish, spent))


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
    now = time.time()
    job = Job(script=script, arguments=arguments)
    if script.endswith(SUFFIXES):
        job = parse_job(read_text(script, "The job file"), script)
        given |= _options_after(ctx, arguments)
    fleet = _fleet_of(job, now)
    with Store() as store, Interrupts() as interrupts:
        path, source = script_source(job.script)
        parameters = {**job.parameters, **dict(given["parameters"])}
        cluster = given["cluster"] or job.cluster
        before = store.cluster_wish(cluster)
        ranks = job.ranks if given["ranks"] is None else given["ranks"]
        shared = given["oversubscribe"] or job.oversubscribe
        consent = Consent(
            check_cluster_name(cluster), now, given["yes"], given["accept_keys"], output().print
        )
        if agreed := renewed(store, consent, fleet):
            ask_cluster(store, ranks, cluster=cluster, oversubscribe=shared, fleet=agreed)
        wish = ask_run(
            store,
            kind=RunKind.SCRIPT,
            source=source,
            path=path,
            arguments=job.arguments,
            cluster=cluster,
            name=given["name"] or job.name,
            parameters=tuple(parameters.items()),
            environment=(
                *job.environment.items(),
                *exchange_environment(
                    given["communicator"] or job.communicator,
                    given["compress"] or job.compress,
                    double_buffering=given["double_buffering"] or job.double_buffering,
                ),
            ),
            ranks=ranks,
            oversubscribe=shared,
            grace=job.grace if given["grace"] is None else given["grace"],
            wall_clock_limit=job.limit
            if given["wall_clock_limit"] is None
            else given["wall_clock_limit"],
        )
        if wish.wall_clock_limit:
            stops = f"Run {wish.name!r} is stopped {length(wish.wall_clock_limit)} after it began"
            click.echo(f"{stops}; --wall-clock-limit says otherwise.", err=True)
        if given["background"]:
            click.echo(f"Run {wish.name!r} is queued; `workbench logs -f` follows it.")
            return 0
        started = before is None or not before.up
        return _attend(store, store.run(wish.id), interrupts, started)


@main.command()
@json_option
@click.option("--cluster", metavar="NAME", help="Only this cluster.")
def status(as_json: bool, cluster: str | None) -> None:
    """Show clusters, their nodes and what these cost, their ranks, and what runs."""
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
            click.echo(listing.clusters_json(store, names, unfinished, time.time()))
        elif names:
            output().print(listing.clusters_table(store, names, unfinished, time.time()))
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
            output().print(listing.text_table(comparison_table(store, found, time.time())))
        else:
            output().print(listing.text_table(runs_table(store, found, time.time())))
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
        with waiting(f"Stopping run {name!r}") as say:
            while not (found := store.run(found.id)).fact.state.ended:
                say(str(found.fact.state))
                care.look(time.time())
                time.sleep(POLL_SECONDS)
        click.echo(f"Run {name}: {state_line(found, time.time())}")


@main.command()
@with_options(host_options[:2], [accept_option])
@click.option(
    "--iam",
    type=click.Choice(["person", "node", "baker"]),
    is_flag=False,
    flag_value="person",
    help="Print the IAM policy that somebody needs; a person's, if not said whose.",
)
@click.option("--output", "bucket", default="", metavar="s3://…", help="The node's bucket.")
@click.option("--all", "all_", is_flag=True, help="Show every check of every host, in full.")
@json_option
@cluster_option
def doctor(
    host_file: str | None,
    host_lines: tuple[str, ...],
    accept_keys: tuple[str, ...],
    iam: str | None,
    bucket: str,
    all_: bool,
    as_json: bool,
    cluster: str,
) -> int:
    """Look for what stands in the way, here or on hosts, and name the remedies."""
    if iam is not None:
        click.echo(ask_policy(iam, bucket))
        return 0
    check_cluster_name(cluster)
    hosts = read_hosts(host_file, host_lines)
    if hosts:
        agree_to_keys(cluster, hosts, accept_keys)
        findings = ask_host_doctor(hosts, cluster)
    else:
        findings = ask_doctors(cluster)
    if as_json:
        click.echo(listing.findings_json(findings))
    else:
        output().print(listing.findings_table(findings if all_ else folded(findings)))
    return int(any(finding.ok is False for finding in findings))


for _command in (
    offers,
    bandwidth_command,
    plan_command,
    extend,
    interrupt,
    sweep_leaks,
    image,
):
    main.add_command(_command)


@main.command()
@click.option("--ranks", type=int, metavar="N", help="How many; 2, if not.")
@click.option("--keep", is_flag=True, help="Leave the cluster up afterwards.")
def demo(ranks: int | None, keep: bool) -> int:
    """Train a small network on real images, on a cluster of its own."""
    with Store() as store:
        return run_demo(store, screen_for(output(), notes()), ranks, keep)


def _attend(store: Store, run: Run, interrupts: Interrupts, started: bool) -> int:
    """Follow a run to its end and return the exit code.

    Args:
        store: Where the run is.
        run: The run.
        interrupts: The first of them asks for the run to stop.
        started: Whether the cluster was started for it, so that someone may forget it.
    """
    try:
        with screen_for(output(), notes()) as screen:
            run = follow(store, TerminalView(run, screen), interrupts=interrupts)
    except KeyboardInterrupt:
        again = f"`workbench logs -f {quote(run.wish.name)}` follows it again"
        click.echo(f"Left run {run.wish.name!r}; {again}.", err=True)
        return 130
    says = anatomy_of(store, run).says
    lines = summary(run, store.final_values(run.id), store.path.parent, time.time(), says)
    ended_well = run.fact.state in (RunState.FINISHED, RunState.STOPPED)
    for line in lines if ended_well else lines[1:]:  # of the others an error tells
        click.echo(line, err=True)
    if started:
        cluster = run.wish.cluster
        costs = cost_sentence(store, cluster, time.time())
        click.echo(
            f"Cluster {cluster!r} stays up{costs}; `workbench down --cluster {cluster}` ends it.",
            err=True,
        )
    return exit_code(run)


def _say_ready(store: Store, cluster: str) -> None:
    began = time.monotonic()
    wish = store.cluster_wish(cluster)
    assert wish is not None
    with waiting(f"Cluster {cluster!r}", lines=_has_nodes(wish)) as say:
        wait_ready(store, cluster, say)
    click.echo(ready_sentence(store, cluster, time.monotonic() - began))


def _has_nodes(wish: ClusterWish) -> bool:
    return wish.fleet.place is not Place.LOCAL


def _fleet_of(job: Job, now: float) -> FleetWish | None:
    """Return the nodes that a job asks for; None for those that its cluster has."""
    if job.remark:
        click.echo(job.remark, err=True)
    listed = read_text(job.host_file, "The host file") if job.host_file else ""
    prepare = read_text(job.prepare, "The script") if job.prepare else None
    job = job.model_copy(
        update={
            "data": job.data and checked_data(job.data),
            "output": job.output and checked_output(job.output),
        }
    )
    request = job.request(listed, prepare)
    return fleet_wish(request, job_file.SPELLING, now=now, ttl=job.time_to_live)


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
