"""Ask for a sweep from the notebook, and show it below the cell: a picture, and its trials."""

from __future__ import annotations

import argparse
import base64
from functools import partial
from typing import Any

from workbench.analysis.search import check_search
from workbench.core.options.table import variables
from workbench.core.run.model import RunKind
from workbench.core.run.run_options import RunOptions
from workbench.notebook.cell_output import page_for, paragraph, say, stack_parts, table
from workbench.notebook.kernel import KernelControl
from workbench.notebook.run_request import agree_again, say_start, wish_before
from workbench.requests.run import script_of
from workbench.requests.sweep import ask_sweep, extend_sweep
from workbench.store import Store
from workbench.view.html import join_html
from workbench.view.pictures.sweep_picture import draw_record
from workbench.view.run_output import Bundle, figure_html
from workbench.view.sweep_record import (
    SweepRecord,
    follow_sweep,
    trials_table,
)

PLACE = "sweep"


def run_sweep(
    shell: Any, options: argparse.Namespace, source: str | None, script: list[str]
) -> None:
    """Queue a sweep, and follow it below the cell.

    Args:
        source: The cell's text; None for a script.
        script: The script with its arguments; empty for a cell.
    """
    with Store() as store, KernelControl(shell).interrupts() as interrupts:
        before, is_up = wish_before(store, options.cluster)
        given, page = vars(options), page_for(shell)
        if options.resume:
            sweep = extend_sweep(store, options.resume, given)
        else:
            kind, path, module = RunKind.CELL, "", ""
            if source is None:
                kind = RunKind.SCRIPT
                path, source, module = script_of(script, is_module=options.is_module)
            chosen = RunOptions(arguments=(*script[1:],), environment=variables(given))
            ask = partial(
                ask_sweep,
                store,
                chosen.changed(given),
                given=check_search(given),
                name=options.name,
                oversubscribe=options.oversubscribe,
                kind=kind,
                source=source,
                path=path,
                module=module,
                cluster=options.cluster,
            )
            sweep = agree_again(store, options.cluster, ask)
        say_start(store, sweep.cluster, before, is_up)
        follow_sweep(
            store,
            sweep,
            lambda record, is_last: page.show(PLACE, sweep_bundle(store, record), final=is_last),
            say,
            interrupts=interrupts,
            background=options.background,
            left=KernelControl(shell).is_ending,
        )


def sweep_bundle(store: Store, record: SweepRecord) -> Bundle:
    """Return a sweep as sentences, a picture and the table of its trials."""
    below = stack_parts([paragraph(*record.lines), table(trials_table(record))])
    picture, said = draw_record(store, record)
    if not picture:
        return below
    return {
        "image/png": base64.b64encode(picture).decode(),
        "text/html": join_html([figure_html(picture, said, ""), below["text/html"]]),
        "text/plain": str(below["text/plain"]),
    }
