"""Everything that we display as HTML, made of text that a page could take for something else.

Run as a script, it prints the HTML by the name of the function that made it.
"""

from __future__ import annotations

import ast
import json
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))  # as a script


from tests.view.tables.test_survey import measured
from workbench.analysis.plan_inputs import PlanAssumptions, find_plan_basis
from workbench.analysis.step_breakdown import StepBreakdown
from workbench.core.cluster.model import ClusterFact, ClusterState
from workbench.core.fleet.model import FleetWish, Node, NodeState, Offer
from workbench.core.node.findings import Finding
from workbench.core.run.hang import Elsewhere, Hang, WaitingRanks, encode_hang
from workbench.core.run.model import Run, RunKind, RunState, RunWish
from workbench.core.run.rank_protocol import Batch, Chunk, Sample
from workbench.core.run.run_options import RunOptions
from workbench.core.run.sweep import Outcome, Space, SweepFact, SweepWish, Trial
from workbench.core.world.world import RankFact
from workbench.notebook import cell_output, plan_view, run_listing, sweep
from workbench.notebook import run_listing as listed
from workbench.requests.cloud_queries import CloudMarket
from workbench.store import OutputRow, Store
from workbench.view import hang_text, run_output, transcript
from workbench.view.html import Html
from workbench.view.pictures import step_bars
from workbench.view.run_record import RunRecord
from workbench.view.sweep_record import SweepRecord
from workbench.view.tables import listing, survey
from workbench.view.tables.nodes import FleetNodes, fleet_of
from workbench.view.tables.plan import plan
from workbench.view.tables.sweep_plan import plan_sweep
from workbench.view.transcript import Transcript

PACKAGE = Path(__file__).parents[2] / "workbench"
# What a person may call a run, and what a host, a cloud or a program may say.
NASTY = r"$x$ \(y\) \[z\] \begin{align}a\end{align} <b>&amp;</b> *c* $0.08/h, $0.0013 spent"
CODED = f"{NASTY} `$d$ and $e$`"
PIXEL = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNk+A8AAQUBAScY42YAAAAASUVORK5CYII="
)
NODES = (
    Node("i-1", NodeState.JOINED, NASTY, 1, price=0.0795, spent=0.0013, launched=1.0, type="a.$1"),
    Node("i-2", NodeState.BOOTING, price=0.2, message=CODED),
)
HANG = Hang((WaitingRanks((0,), NASTY, 6.0, 3),), (Elsewhere((1,), "at", 8, NASTY),), sure=True)
FINDINGS = (Finding("quota", False, CODED, CODED), Finding("keys", True, NASTY))
OFFERS = (
    Offer("slow.$1", "a$", 0.0795, vcpus=4, memory=16, gpus=1, gpu="T4", network=1.44,
          history=((0.0, 0.2), (3600.0, 0.3))),
    Offer("fast.1", "a", 0.6, vcpus=8, memory=32, gpus=1, gpu="T4", network=10.0, quota=4),
)  # fmt: skip
PLANNED = PlanAssumptions("default", step=0.25, gradients=98e6, batch=32, examples=50_000, gpu="T4")
ANATOMY = StepBreakdown(
    {0: {"compute": 0.2, "other": 0.1}, 1: {"compute": 0.3, "other": 0.1}}, 1, (CODED,)
)
TABLE = listing.Table((NASTY, "$"), ((CODED, "$1.00"), (NASTY, "$2.00")))


class Gallery:
    """A store with things to show."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.run = self._train(NASTY, "260101-000000-aaaa")
        self.other = self._train("other $1", "260101-000001-bbbb")
        fleet = FleetWish("rehearsal", nodes=2, budget=2.0, expires=9000.0)
        self.wish = store.wish_cluster("default", up=True, ranks=0, fleet=fleet)
        store.fleets.put_nodes("default", NODES)
        fact = ClusterFact("default", ClusterState.READY, 1, 1, message=CODED)
        store.put_cluster_fact(fact)
        store.put_ranks("default", [RankFact(1, 0, NASTY, 4000, 7)])

    def _train(self, name: str, identity: str) -> Run:
        wish = RunWish(
            identity,
            name,
            RunKind.CELL,
            "pass",
            created=1.0,
            options=RunOptions(parameters=((NASTY, NASTY),)),
        )
        self.store.wish_run(wish)
        samples = tuple(
            Sample(metric, step, 0.0, 1.0 / step)
            for metric in ("loss", NASTY)
            for step in (1, 2, 3)
        )
        self.store.reports.add_batches(
            [Batch(identity, 0, 1, samples, (Chunk("stdout", 0.0, f"{NASTY}\n"),))]
        )
        self.store.put_run_fact(identity, state=RunState.FAILED, ranks=1, started=1.0, ended=3.0,
                                iteration=3, iterations_total=3, message=CODED, error=NASTY,
                                hang=encode_hang(HANG))  # fmt: skip
        return self.store.run(identity)

    @property
    def record(self) -> RunRecord:
        record = RunRecord(self.run)
        record.look(self.store)
        record.read_points(self.store)
        return record

    @property
    def fleet(self) -> FleetNodes:
        return fleet_of(self.store, self.wish, 1, 3600.0)

    @property
    def transcript(self) -> Transcript:
        made = Transcript(NASTY, is_cut=True)
        made.feed_all([OutputRow(1, 0, "stdout", 0.0, f"{NASTY}\n")])
        return made

    @property
    def sweep(self) -> SweepRecord:
        wish = SweepWish("s", NASTY, self.run.wish, ((NASTY, Space((NASTY, CODED))),), 2, NASTY)
        trials = [
            Trial("s", 0, ((NASTY, CODED),), self.run.id, Outcome.FINISHED, 0.5, began=1, ended=2),
            Trial("s", 1, ((NASTY, NASTY),), self.run.id, Outcome.FAILED, failure=CODED),
        ]
        return SweepRecord(wish, SweepFact(CODED), trials)

    @property
    def plan(self) -> Any:
        return plan(self.store, PLANNED, find_plan_basis(self.store, PLANNED), OFFERS)

    @property
    def sweep_plan(self) -> Any:
        basis, asked = find_plan_basis(self.store, PLANNED), replace(PLANNED, sweep=8)
        return plan_sweep(self.store, asked, basis, CloudMarket("", OFFERS, NASTY))


MAKERS: dict[str, Callable[[Gallery], Any]] = {
    "view.pictures.step_bars.html": lambda g: step_bars.html(ANATOMY),
    "view.pictures.step_bars.lines_html": lambda g: step_bars.lines_html(ANATOMY),
    "view.pictures.step_bars.verdict_html": lambda g: step_bars.verdict_html(ANATOMY),
    "view.transcript.picture": lambda g: transcript.picture("image/png", PIXEL, NASTY),
    "view.transcript.static_html": lambda g: transcript.static_html({"text/latex": NASTY}, {}),
    "view.hang_text.hang_html": lambda g: hang_text.hang_html(g.run),
    "view.run_output.bundle_of": lambda g: run_output.bundle_of(
        g.store, g.record, g.transcript, 9.0
    ),
    "view.run_output.figure_html": lambda g: run_output.figure_html(b"", NASTY, NASTY),
    "view.run_output.live_bundle": lambda g: run_output.live_bundle(
        g.run, NASTY, step_bars.html(ANATOMY), NASTY
    ),
    "view.tables.survey.survey_bundle": lambda g: survey.survey_bundle(
        g.store, g.run, measured(0.3), 9.0
    ),
    "view.tables.listing.cell": lambda g: listing.frame_table([listing.cell(CODED)]),
    "view.tables.listing.frame_table": lambda g: listing.frame_table([listing.cell(NASTY)], CODED),
    "view.tables.listing.head_cell": lambda g: listing.frame_table([listing.head_cell(CODED)]),
    "view.tables.listing.table_html": lambda g: listing.table_html(TABLE, CODED),
    "view.transcript.html": lambda g: g.transcript.html(streamed=frozenset(), final=True),
    "notebook.run_listing.fleet_tables": lambda g: cell_output.stack_parts(
        run_listing.fleet_tables(g.fleet)
    ),
    "notebook.run_listing.about": lambda g: listed.about(g.store, [g.run.id]),
    "notebook.run_listing.cluster_status": lambda g: listed.cluster_status(g.store, "default"),
    "notebook.run_listing.comparison": lambda g: listed.comparison(
        g.store, [g.run.id, g.other.id], 9.0
    ),
    "notebook.run_listing.findings_table": lambda g: listed.findings_table(FINDINGS),
    "notebook.run_listing.newest_runs": lambda g: listed.newest_runs(g.store, 20, 9.0),
    "notebook.run_listing.one_run": lambda g: listed.one_run(g.store, g.run, 9.0),
    "notebook.cell_output.paragraph": lambda g: cell_output.paragraph(NASTY, CODED),
    "notebook.cell_output.stack_parts": lambda g: cell_output.stack_parts(
        [cell_output.paragraph(CODED)]
    ),
    "notebook.cell_output.table": lambda g: cell_output.table(TABLE, CODED),
    "notebook.plan_view.plan_bundle": lambda g: plan_view.plan_bundle(g.plan),
    "notebook.plan_view.sweep_plan_bundle": lambda g: plan_view.sweep_plan_bundle(g.sweep_plan),
    "notebook.sweep.sweep_bundle": lambda g: sweep.sweep_bundle(g.store, g.sweep),
}
# They call what is above with what they are given.
THROUGH = {
    "view.run_output.figure", "notebook.plan_view.build_plan", "notebook.live_widget.bundle",
}  # fmt: skip


def html_makers() -> Iterator[str]:
    """Yield what makes HTML for a page, by annotation or by the name of the type."""
    for room in ("view", "notebook"):
        for path in sorted((PACKAGE / room).rglob("*.py")):
            if path.name == "html.py":
                continue
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if not isinstance(node, ast.FunctionDef) or node.name.startswith("_"):
                    continue
                returns = ast.unparse(node.returns) if node.returns else ""
                if "Html" in returns or "Bundle" in returns or "'text/html':" in ast.unparse(node):
                    module = path.relative_to(PACKAGE).with_suffix("").as_posix()
                    yield f"{module.replace('/', '.')}.{node.name}"


def render_gallery(store: Store) -> dict[str, str]:
    """Return all HTML by the name of its maker."""
    gallery = Gallery(store)
    made = {name: make(gallery) for name, make in MAKERS.items()}
    return {
        name: str(one if isinstance(one, Html) else one["text/html"]) for name, one in made.items()
    }


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder, Store(Path(folder) / "store.sqlite3") as store:
        print(json.dumps(render_gallery(store)))
