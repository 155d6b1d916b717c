"""The commands' work: check options, confirm, write the desired state, show the result."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from shlex import quote
from typing import Any, TypeVar

import click

from workbench.analysis.network import network_sentence
from workbench.analysis.step_breakdown import read_breakdown
from workbench.cli import listing
from workbench.cli.consent import Consent, agree, agree_to_keys, agree_to_size, confirm, renew_wish
from workbench.cli.demo import run_demo
from workbench.cli.fleet_options import SPELLING, read_hosts, read_request, read_text
from workbench.cli.logs import print_output, print_raw_logs, print_supervisor_log, print_traceback
from workbench.cli.parsing import run_elsewhere
from workbench.cli.terminal import TerminalRunView, exit_code, notes, output, screen_for, show_wait
from workbench.core.cluster.idleness import end_sentence
from workbench.core.cluster.model import (
    THIS_MACHINE,
    ClusterWish,
    ResizeAt,
    check_cluster_name,
    keeps_nodes,
)
from workbench.core.cluster.size import Size
from workbench.core.cluster.spending import check_time_left
from workbench.core.fleet.model import FleetWish
from workbench.core.fleet.request import FleetRequest, fleet_wish, with_limits
from workbench.core.node.host_findings import fold_findings
from workbench.core.option import JOB, is_given
from workbench.core.options import jobfile as job_file
from workbench.core.options.jobfile import SUFFIXES, Job, parse_job
from workbench.core.options.table import options_of, refuse_other_options, spellings_of, variables
from workbench.core.run.model import Run, RunKind, RunState, RunWish, length
from workbench.core.run.run_options import RunOptions
from workbench.core.units import count
from workbench.errors import InputError, PriceQuestion, StateError
from workbench.requests.cloud_queries import (
    ask_doctors,
    ask_host_doctor,
    ask_policy,
    list_hosts,
)
from workbench.requests.cluster import (
    ask_cluster,
    ask_down,
    ask_size,
    is_deleted,
    remove_cluster,
    store_to_leave,
)
from workbench.requests.resume import ask_resume, check_kept, nodes_to_bring_back
from workbench.requests.run import ask_run, ask_stop, script_of, stop_line, stray_sentence
from workbench.requests.run_deletion import delete_runs, find_chosen, what_goes
from workbench.requests.supervisor import (
    SupervisorMonitor,
    keep_awake,
    other_version,
    supervisor_is_awake,
)
from workbench.requests.sweep import ask_sweep_stop
from workbench.store import Store
from workbench.view.about_run import write_csv
from workbench.view.attempts import output_before
from workbench.view.cluster_changes import (
    check_purge,
    cost_sentence,
    deletion_sentence,
    gone_sentence,
    purge_hosts,
    ready_sentence,
    removed_sentence,
    resize_effect,
    start_sentence,
    wait_down,
    wait_ready,
)
from workbench.view.following import POLL_SECONDS, Interrupts, follow
from workbench.view.hang_text import hang_lines
from workbench.view.pictures import step_bars
from workbench.view.pictures.curve_picture import draw_chart
from workbench.view.pictures.figure import check_chart_path
from workbench.view.run_record import curves_of
from workbench.view.state_line import state_line
from workbench.view.tables.listing import (
    comparison_sentence,
    comparison_table,
    folded_line,
    runs_table,
    verdict_lines,
)
from workbench.view.tables.visited_examples import (
    read_own_iterator,
    read_visits,
    visits_sentence,
    visits_table,
    visits_values,
)
from workbench.view.text import summary

T = TypeVar("T")


def up(
    ranks: int | None,
    oversubscribe: bool,
    no_wait: bool,
    cluster: str,
    yes: bool,
    accept_keys: tuple[str, ...],
    **given: Any,
) -> None:
    """Start a cluster, after the price is confirmed."""
    now, request = time.time(), read_request(given)
    _move(request)
    with Store() as store:
        before = store.cluster_wish(check_cluster_name(cluster))
        fact = store.cluster_fact(cluster)
        has_nodes = before is not None and (before.up or keeps_nodes(before, fact))
        fleet = with_limits(before.fleet, request, SPELLING, now) if before and has_nodes else None
        fleet = fleet or fleet_wish(request, SPELLING, now=now, ranks=ranks)
        consent = Consent(cluster, now, yes, accept_keys, output().print, ranks or 0)
        is_exact = request.ttl is not None
        agreed = (
            THIS_MACHINE if given["here"] else renew_wish(store, consent, fleet, is_exact=is_exact)
        )
        if agreed is None and ranks is not None:
            ask_size(store, Size(ranks), cluster=cluster, oversubscribe=oversubscribe)
        else:
            ask_cluster(store, ranks, cluster=cluster, oversubscribe=oversubscribe, fleet=agreed)
        if agreed is not None and 0 < agreed.budget <= store.fleets.spent(cluster):
            return  # its nodes are released
        if no_wait:
            click.echo(f"Starting cluster {cluster!r}; follow it with `workbench status`.")
        else:
            _say_ready(store, cluster)


def _move(request: FleetRequest) -> None:
    """Take the machine of the supervisors, if the request has one; this command then runs there.

    Raises:
        StateError: A supervisor runs on this machine.
    """
    if not request.place.moves(request.settings):
        return
    with Store() as store:
        awake = [wish.name for wish in store.clusters() if supervisor_is_awake(wish.name)]
    if awake:
        raise StateError(
            f"The supervisor of cluster {awake[0]!r} runs on this machine",
            f"delete that cluster with `workbench delete --cluster {awake[0]}` first.",
        )
    request.place.move(request.settings, partial(click.echo, err=True))
    run_elsewhere()


def resize(
    ranks: int | None,
    nodes: int | None,
    at: ResizeAt,
    across_zones: bool,
    yes: bool,
    oversubscribe: bool,
    no_wait: bool,
    cluster: str,
) -> None:
    """Change the number of ranks or nodes of a cluster that is up."""
    size = Size(ranks, nodes)
    with Store() as store:
        wish = store.cluster_wish(check_cluster_name(cluster))
        if wish is not None:
            check_time_left(wish, store.cluster_fact(cluster), time.time())
        if wish is None or not wish.up:
            start = "" if ranks is None else f" {ranks}"
            raise StateError(
                f"Cluster {cluster!r} is not up", f"start it with `workbench up{start}`."
            )
        effect = resize_effect(store, cluster, at, nodes)
        agree_to_size(
            store,
            wish,
            size,
            yes=yes,
            across_zones=across_zones,
            at=at,
            oversubscribe=oversubscribe,
        )
        if effect:
            click.echo(effect, err=True)
        if no_wait:
            click.echo(f"Resizing cluster {cluster!r} to {size}; `workbench status` shows it.")
        else:
            _say_ready(store, cluster)


def delete(no_wait: bool, cluster: str, yes: bool, purge: bool) -> None:
    """Delete a cluster, and stop its unfinished runs; ``yes`` or not, no question is asked.

    A cluster that is already deleted is removed from all lists; its runs are kept.
    """
    with store_to_leave() as store:
        if purge:
            check_purge(store, check_cluster_name(cluster), waits=not no_wait)
        if is_deleted(store, check_cluster_name(cluster)):
            if purge:
                click.echo(purge_hosts(store, cluster))
            remove_cluster(store, cluster=cluster)
            click.echo(removed_sentence(cluster))
            return
        sentence = deletion_sentence(store, cluster)
        ask_down(store, cluster=cluster)
        if no_wait:
            click.echo(sentence)
            return
        wish = store.cluster_wish(cluster)
        assert wish is not None
        with show_wait(f"Deleting cluster {cluster!r}", lines=_has_nodes(wish)) as say:
            spent = wait_down(store, cluster, say)
        click.echo(gone_sentence(wish, spent))
        if purge:
            click.echo(purge_hosts(store, cluster))


def run(script: str | None, arguments: tuple[str, ...], **given: Any) -> int:
    """Run a script or a job file on every rank, and show its progress."""
    if given["resume"] is not None:
        return _resume(script, arguments, given)
    with Store() as store, Interrupts() as interrupts:
        wish, before = ask_script(store, script, arguments, given, _check_one_run)
        return _show(store, wish, interrupts, before, is_left=given["background"])


def _check_one_run(values: Mapping[str, Any]) -> Callable[..., RunWish]:
    """Return what asks for a run.

    Raises:
        InputError: A job file describes a sweep.
    """
    of_sweep = [one.name for one in options_of(JOB) if "sweep" in one.on and "run" not in one.on]
    if asked := [name for name in of_sweep if name in values]:
        raise InputError(
            f"The job file describes a sweep ({', '.join(asked)})",
            "run it by `workbench sweep`, or leave that out.",
        )
    return ask_run


def ask_script(
    store: Store,
    script: str | None,
    arguments: tuple[str, ...],
    given: dict[str, Any],
    find: Callable[[Mapping[str, Any]], Callable[..., T]],
) -> tuple[T, ClusterWish | None]:
    """Ask for what a script or a job file says, once its price is agreed to.

    Args:
        given: The options of the line.
        find: Returns what asks for it, given all options by name.

    Returns:
        What was asked for, and what was requested of its cluster before.
    """
    if script is None:
        raise click.UsageError("Missing argument 'SCRIPT'.")
    now = time.time()
    job = Job(script, {"arguments": arguments})
    if script.endswith(SUFFIXES) and not given["is_module"]:
        job = parse_job(read_text(script, "The job file"), script)
        given |= _options_after(click.get_current_context(), arguments)
    fleet = _fleet_of(job, now)
    words = (job.script, *job.arguments)
    path, source, module = script_of(words, is_module=given["is_module"])
    typed = {name: value for name, value in given.items() if is_given(value)}
    values = {**job.values, **typed}
    cluster, ranks = values.get("cluster", job.cluster), values.get("ranks")
    before, shared = store.cluster_wish(cluster), bool(values.get("oversubscribe"))
    consent = Consent(
        check_cluster_name(cluster),
        now,
        given["yes"],
        given["accept_keys"],
        output().print,
        ranks or 0,
        values.get("when_done", job.when_done),
    )
    call = find(values)
    if agreed := renew_wish(store, consent, fleet, is_for_run=True):
        ask_cluster(store, ranks, cluster=cluster, oversubscribe=shared, fleet=agreed)
    variables_of_job = job.values.get("environment", {}).items()
    options = (
        RunOptions(wall_clock_limit=job.limit, when_done=job.when_done)
        .changed(job.values)
        .changed(given)
    )
    ask = partial(
        call,
        store,
        replace(options, environment=(*variables_of_job, *variables(values))),
        kind=RunKind.SCRIPT,
        source=source,
        path=path,
        cluster=cluster,
        name=values.get("name"),
        oversubscribe=shared,
        module=module,
    )
    wish = _agree_again(ask, given["yes"])
    place = click.get_current_context().info_name or ""
    if stray := stray_sentence(words, source, spellings_of(place)):
        click.echo(stray, err=True)
    return wish, before


def _agree_again(ask: Callable[..., T], yes: bool) -> T:
    """Queue a run, once the person has agreed to what nodes cost now that were given back."""
    try:
        return ask()
    except PriceQuestion as question:
        if not yes:
            click.echo(str(question))
            confirm("Start?", "nothing was started")
        return ask(agreed=question.price)


def _resume(script: str | None, arguments: tuple[str, ...], given: dict[str, Any]) -> int:
    """Let a run that has ended continue, and show its progress."""
    check_kept(given)
    if script is not None and script.endswith(SUFFIXES):
        raise InputError("A run cannot be resumed with a job file", "name its script, or nothing.")
    with Store() as store, Interrupts() as interrupts:
        path, source, module = (
            script_of((script, *arguments), is_module=given["is_module"])
            if script
            else (None, None, None)
        )
        found = store.run(given["resume"])
        cluster = check_cluster_name(given["cluster"] or found.wish.cluster)
        before = store.cluster_wish(cluster)
        if cluster == found.wish.cluster:
            _bring_back(store, found, given)
        wish = ask_resume(
            store,
            given["resume"],
            {**given, "arguments": arguments if script else None},
            cluster=cluster,
            source=source,
            path=path,
            oversubscribe=given["oversubscribe"],
            from_here=True,
            module=module,
        )
        return _show(store, wish, interrupts, before, is_left=given["background"])


def _bring_back(store: Store, run: Run, given: dict[str, Any]) -> None:
    """Start the nodes again that a run had, once the person has agreed to their price."""
    now, cluster = time.time(), run.wish.cluster
    if (fleet := nodes_to_bring_back(store, run, now)) is None:
        return
    place, nodes = fleet.place.located, count(fleet.nodes, "node")
    click.echo(f"Run {run.wish.name!r} was {place}, which has to start {nodes} for it.", err=True)
    consent = Consent(cluster, now, given["yes"], given["accept_keys"], output().print)
    ask_cluster(store, 0, cluster=cluster, fleet=agree(store, consent, fleet))


def _show(
    store: Store,
    wish: RunWish,
    interrupts: Interrupts,
    before: ClusterWish | None,
    *,
    is_left: bool,
) -> int:
    """Follow a run that was queued, unless it is left in the background; return the exit code.

    Args:
        before: What was requested of its cluster before.
    """
    if wish.options.wall_clock_limit:
        stops = f"Run {wish.name!r} stops after {length(wish.options.wall_clock_limit)}"
        click.echo(f"{stops}; change this with --wall-clock-limit.", err=True)
    for remark in filter(None, (*wish.origin.remarks, network_sentence(store, wish.cluster))):
        click.echo(remark, err=True)
    started = before is None or not before.up
    if started and (cluster := store.cluster_wish(wish.cluster)) is not None:
        click.echo(start_sentence(before, cluster), err=True)
    if is_left:
        click.echo(f"Run {wish.name!r} is queued; follow it with `workbench logs -f`.")
        return 0
    return _attend(store, store.run(wish.id), interrupts, started)


def status(as_json: bool, cluster: str | None) -> None:
    """Show clusters and their unfinished runs."""
    with Store() as store:
        names = [cluster] if cluster else [wish.name for wish in store.clusters()]
        if cluster and store.cluster_wish(cluster) is None:
            raise StateError(
                f"There is no cluster {cluster!r}", "list all with `workbench status`."
            )
        for name in names:
            keep_awake(store, name)
        unfinished = [run for name in names for run in store.list_unfinished(name)]
        if as_json:
            click.echo(listing.clusters_json(store, names, unfinished, time.time()))
        elif names:
            output().print(listing.clusters_table(store, names, unfinished, time.time()))
            for remark in filter(None, map(other_version, names)):
                click.echo(remark, err=True)
        else:
            click.echo("There is no cluster yet; start one with `workbench up`.")


def runs(
    names: tuple[str, ...],
    limit: int,
    plot: Path | None,
    as_json: bool,
    as_csv: bool,
    **given: Any,
) -> None:
    """List, compare or delete runs."""
    with store_to_leave() if given["delete"] else Store() as store:
        if change_what_is_kept(store, names, given):
            return
        if plot is not None:
            check_chart_path(plot)
        if as_csv and not names:
            raise InputError("--csv needs names of runs, as in `workbench runs --csv fit`.")
        if given["examples"] and not names:
            raise InputError(
                "--examples needs names of runs, as in `workbench runs --examples fit`."
            )
        printed = as_json or given["all"]
        named = {run.id: run for run in map(store.run, names)}  # two names may mean one run
        found = [*named.values()] or store.runs(limit=limit, printed=printed)
        folded = ""
        if not names and not printed:
            folded = folded_line(store, found, limit, "workbench runs --all")
        if not found:
            none = folded or "There are no runs yet; start one with `workbench run`."
            click.echo("[]" if as_json else none)
            return
        if given["examples"]:
            return print_visits(store, found, as_json=as_json)
        if as_csv:
            write_csv(store, found, sys.stdout)
        elif as_json:
            click.echo(listing.runs_json(store, found, with_source=bool(names)))
        elif names:
            if said := comparison_sentence(store, found):
                click.echo(said)
            output().print(listing.text_table(comparison_table(store, found, time.time())))
            for line in verdict_lines(store, found):
                click.echo(line)
            output().print(listing.hangs(found), end="")
            if len(found) == 1:
                click.echo(f"\n{found[0].wish.source.rstrip()}" if found[0].wish.source else "")
        else:
            output().print(listing.text_table(runs_table(store, found, time.time())))
            if folded:
                click.echo(folded)
        if plot is not None:
            drawn = found if names else found[:1]
            draw_chart({run.wish.name: curves_of(store, run) for run in drawn}, plot)
            click.echo(f"Saved the curves as {plot}.", err=True)


def print_visits(store: Store, runs: Sequence[Run], *, as_json: bool) -> None:
    """Print how often each example of each epoch was visited, by runs."""
    visits = {run.wish.name: read_visits(store, run) for run in runs}
    if as_json:
        return click.echo(json.dumps({one: visits_values(visits[one]) for one in visits}, indent=2))
    for run in runs:
        own = read_own_iterator(store, run)
        click.echo(visits_sentence(run, visits[run.wish.name], own))
        if visits[run.wish.name]:
            output().print(listing.text_table(visits_table(visits[run.wish.name])))


def logs(
    run: str | None,
    is_followed: bool,
    rank: int | None,
    traceback: bool,
    supervisor: bool,
    level: str,
    controller: bool,
    engines: bool,
    cluster: str,
) -> None:
    """Print the output of a run, or the logs of its cluster."""
    if supervisor:
        return print_supervisor_log(check_cluster_name(cluster), is_followed, level)
    if controller or engines:
        pattern = "ipcontroller*.log" if controller else "ipengine*.log"
        return print_raw_logs(check_cluster_name(cluster), pattern, is_followed)
    with Store() as store:
        if run is None and not store.runs(cluster, limit=1):
            raise StateError(
                f"Cluster {cluster!r} has no runs yet", "start one with `workbench run`."
            )
        found = store.run(run) if run else store.runs(cluster, limit=1)[0]
        if rank is not None and not 0 <= rank < max(1, found.fact.ranks):
            ranks = count(found.fact.ranks, "rank")
            raise InputError(f"Run {found.wish.name!r} has {ranks}, counted from 0", f"not {rank}.")
        if traceback:
            return print_traceback(found)
        print_output(store, found, rank, is_followed)


def stop(run: str | None, no_wait: bool, cluster: str) -> None:
    """Stop a run after its current iteration, or a sweep."""
    with Store() as store:
        if said := ask_sweep_stop(store, run):
            click.echo(said)
            return
        found = ask_stop(store, run, cluster)
        name = found.wish.name
        if no_wait or found.fact.state.ended:
            click.echo(stop_line(found))
            return
        care = SupervisorMonitor(found.wish.cluster, time.monotonic())
        with show_wait(f"Stopping run {name!r}") as say:
            while not (found := store.run(found.id)).fact.state.ended:
                say(str(found.fact.state))
                care.look(time.monotonic())
                time.sleep(POLL_SECONDS)
        click.echo(f"Run {name}: {state_line(found, time.time())}")


def doctor(
    host_file: str | None,
    hosts: tuple[str, ...],
    accept_keys: tuple[str, ...],
    iam: str | None,
    bucket: str,
    all_checks: bool,
    as_json: bool,
    cluster: str,
) -> int:
    """Check this machine or hosts and show the findings; exit code 1 if something is missing."""
    if iam is not None:
        text, commands = ask_policy(iam, bucket)
        click.echo(text)
        if commands:
            click.echo("Save it as node.json, and create the role of the nodes once:", err=True)
            click.echo("\n".join(commands), err=True)
        return 0
    check_cluster_name(cluster)
    found = read_hosts(host_file, hosts)
    if found:
        agree_to_keys(cluster, list_hosts(found), accept_keys)
        findings = ask_host_doctor(found, cluster)
    else:
        findings = ask_doctors(cluster)
    if as_json:
        click.echo(listing.findings_json(findings))
    else:
        output().print(listing.findings_table(findings if all_checks else fold_findings(findings)))
    return int(any(finding.ok is False for finding in findings))


def demo(ranks: int | None, keep: bool) -> int:
    """Train the script that comes with the package."""
    with Store() as store:
        return run_demo(store, screen_for(output(), notes()), ranks, keep)


def _attend(store: Store, run: Run, interrupts: Interrupts, started: bool) -> int:
    """Follow a run to its end and return the exit code.

    Args:
        store: Where the run is.
        run: The run.
        interrupts: Counts Ctrl-C; the first one stops the run.
        started: Whether the cluster was started for this run, so the user is reminded of it.
    """
    try:
        with screen_for(output(), notes()) as screen:
            # Who resumes a run has seen what its earlier attempts wrote.
            view = TerminalRunView(run, screen, after=output_before(store, run.id))
            run = follow(store, view, interrupts=interrupts)
    except KeyboardInterrupt:
        again = f"`workbench logs -f {quote(run.wish.name)}` follows it again"
        click.echo(f"Left run {run.wish.name!r}; {again}.", err=True)
        return 130
    steps = [*hang_lines(run), *step_bars.lines(read_breakdown(store, run))]
    lines = summary(run, store.reports.final_values(run.id), store.path.parent, time.time(), steps)
    ended_well = run.fact.state in (RunState.FINISHED, RunState.STOPPED)
    for line in lines if ended_well else lines[1:]:  # a failed run raises an error instead
        click.echo(line, err=True)
    if started and (wish := store.cluster_wish(run.wish.cluster)) is not None:
        costs = cost_sentence(store, wish.name, time.time())
        done = run.wish.options.when_done
        click.echo(end_sentence(wish.name, wish.fleet, done, costs), err=True)
    return exit_code(run)


def _say_ready(store: Store, cluster: str) -> None:
    began = time.monotonic()
    wish = store.cluster_wish(cluster)
    assert wish is not None
    with show_wait(f"Cluster {cluster!r}", lines=_has_nodes(wish)) as say:
        wait_ready(store, cluster, say)
    click.echo(ready_sentence(store, cluster, time.monotonic() - began))


def _has_nodes(wish: ClusterWish) -> bool:
    return wish.fleet.place.has_nodes


def _fleet_of(job: Job, now: float) -> FleetWish | None:
    """Return the nodes that a job requests; None to keep those of its cluster."""
    if job.remark:
        click.echo(job.remark, err=True)
    request = job.completed(read_request(job.values))
    return fleet_wish(request, job_file.SPELLING, now=now, ttl=job.time_to_live)


def _options_after(ctx: click.Context, words: tuple[str, ...]) -> dict[str, Any]:
    """Parse the options that follow a job file."""
    ours: list[click.Parameter] = [p for p in ctx.command.params if isinstance(p, click.Option)]
    command = click.Command("run", params=ours)
    try:
        made = command.make_context(ctx.info_name, list(words), parent=ctx.parent)
    except click.NoSuchOption:
        refuse_other_options("run", "run", words)
        raise
    with made as inner:
        source = inner.get_parameter_source
        return {
            name: value
            for name, value in inner.params.items()
            if source(name) is not click.core.ParameterSource.DEFAULT
        }


def change_what_is_kept(store: Store, names: Sequence[str], given: dict[str, Any]) -> bool:
    """Delete runs or set their retention; return whether the options asked for either.

    Raises:
        InputError: The options contradict each other.
        StateError: Not confirmed, or a named run has not ended.
    """
    described = {name: given[name] for name in ("older", "larger", "keep")}
    if given["retain"] is not None or given["retain_size"] is not None:
        _retain(store, given["retain"], given["retain_size"])
        return True
    if not given["delete"]:
        if given["yes"] or any(value is not None for value in described.values()):
            raise InputError("These options select runs to delete", "add --delete.")
        return False
    runs = find_chosen(store, names, **described)
    if not runs:
        click.echo("No ended run matches, so nothing was deleted.")
        return True
    if not given["yes"]:
        click.echo(f"This deletes {what_goes(runs)} It cannot be undone.", err=True)
        confirm("Delete?", "nothing was deleted")
    with show_wait("Deleting", shown_by="workbench runs") as say:
        said = delete_runs(store, runs, say)
    click.echo(said)
    return True


def _retain(store: Store, age: float | None, nbytes: int | None) -> None:
    kept = store.removal.retention()
    kept = replace(
        kept,
        age=kept.age if age is None else age,
        nbytes=kept.nbytes if nbytes is None else nbytes,
    )
    store.removal.put_retention(kept)
    click.echo(f"From now on {kept}.")
