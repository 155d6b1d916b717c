"""``workbench bandwidth``: measure a cluster and show the result."""

from __future__ import annotations

import json
import time
from pathlib import Path

import click
from rich.console import Group
from rich.text import Text

from workbench.cli.curve_file import check_chart_path
from workbench.cli.listing import text_table
from workbench.cli.terminal import TerminalRunView, exit_code, notes, output, screen_for
from workbench.core.cluster.model import check_cluster_name
from workbench.core.performance.measurement import Measurement, measurement_json
from workbench.core.run.model import Run, RunState
from workbench.errors import StateError
from workbench.requests.run import ask_measurement
from workbench.store import Store
from workbench.view.following import Interrupts, check_success, follow
from workbench.view.pictures.survey_picture import can_draw, save_survey
from workbench.view.state_line import state_line
from workbench.view.tables.survey import find_previous, heading, remarks, tables


def bandwidth_command(
    rating: float | None, last: bool, plot: Path | None, as_json: bool, cluster: str
) -> int:
    """Measure a cluster, or show its last measurement."""
    check_cluster_name(cluster)
    if plot is not None:
        check_chart_path(plot)
    with Store() as store:
        if last:
            known = store.surveys.of_cluster(cluster, limit=1)
            if not known:
                raise StateError(
                    f"Cluster {cluster!r} has not been measured yet",
                    "measure it with `workbench bandwidth`.",
                )
            found: Measurement | None = known[0]
        else:
            run = _await_measurement(store, cluster, rating)
            found = store.surveys.of_run(run.id)
            if found is None:
                click.echo(f"Run {run.wish.name}: {state_line(run, time.time())}", err=True)
                return exit_code(run)
        assert found is not None
        _show(store, cluster, found, as_json)
        if plot is not None and can_draw(found):
            save_survey(found, str(plot))
            click.echo(f"Saved the picture as {plot}.", err=True)
    return 0


def _await_measurement(store: Store, cluster: str, rating: float | None) -> Run:
    with Interrupts() as interrupts:
        wish = ask_measurement(store, cluster=cluster, rating=rating)
        run = store.run(wish.id)
        try:
            with screen_for(notes(), notes()) as screen:
                run = follow(store, TerminalRunView(run, screen), interrupts=interrupts)
        except KeyboardInterrupt:
            raise StateError(
                f"Stopping run {wish.name!r} in the background", "`workbench status` shows it."
            ) from None
    if run.fact.state is not RunState.STOPPED:
        check_success(run)
    return run


def _show(store: Store, cluster: str, found: Measurement, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(json.loads(measurement_json(found)), indent=2))
        return
    now = time.time()
    said = [heading(found), *remarks(found, find_previous(store, cluster, found), now)]
    shown = [Text(sentence) for sentence in said]
    parts = [part for title, table in tables(found) for part in (Text(title), text_table(table))]
    output().print(Group(*shown, *parts))
