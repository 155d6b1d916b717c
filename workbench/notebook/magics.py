"""The magics: each parses, calls and displays."""

from __future__ import annotations

import time

from IPython.core.magic import Magics, line_cell_magic, line_magic, magics_class
from IPython.display import display

from workbench.core.hostdiagnosis import folded
from workbench.core.run import RunKind
from workbench.notebook import options
from workbench.notebook.cell import check_cell
from workbench.notebook.cluster_panel import ClusterPanel, panel_for
from workbench.notebook.handle import RunHandle, watch
from workbench.notebook.launch import set_up, train, train_script
from workbench.notebook.listing import comparison, findings_table, newest_runs
from workbench.notebook.measuring import measure
from workbench.notebook.page import page_for
from workbench.notebook.plan_view import planned
from workbench.notebook.readying import await_gone, await_ready
from workbench.notebook.sizing import hosts_findings, resize
from workbench.notebook.status import cluster_status, last_run_line
from workbench.store import Store
from workbench.store.asking import ask_interruption
from workbench.store.wishes import ask_doctor, ask_down
from workbench.view.care import keep_awake
from workbench.view.phrases import duration
from workbench.view.stop import ask_stop, stop_line


@magics_class
class WorkbenchMagics(Magics):
    """Train on every MPI rank from a notebook."""

    @line_magic
    def dist_cluster(self, line: str) -> ClusterPanel:
        """Show and size a cluster, here or on nodes: asked against actual, price, time to live.

        %dist_cluster [--cluster NAME]

        %dist_cluster --rehearse N [--link GBITS] [--cluster NAME] starts with N pretended nodes,
        and waits. With --link they send each other no more than so many Gbit/s.
        """
        chosen = options.panel_options("%dist_cluster").read(line)
        panel = panel_for(chosen.cluster)
        if chosen.rehearse is not None:
            panel.rehearse(chosen.rehearse, chosen.link or 0.0)
            await_ready(chosen.cluster, page_for(self.shell))
        return panel

    @line_cell_magic
    def dist_train(self, line: str, cell: str | None = None) -> RunHandle | None:
        """Run the cell, or a script, on every rank, and show curves and output below.

        %%dist_train [--ranks N] [--name NAME] [--param KEY=VALUE]... [--background]
                     [--oversubscribe] [--grace SECONDS] [--cluster NAME]
                     [--communicator NAME] [--compress NAME] [--double-buffering]

        %dist_train [the same options] script.py [its arguments]...

        What stands after the script's name is the script's. The cluster is started if need be.
        --communicator (auto, ring, doubling, hierarchical or mpi) and --compress (fp16, bf16,
        int8, topk or powersgd) give ChainerMN code our communicator in place of its naive; so does
        --double-buffering, with which each update uses the gradients of the step before, and the
        exchange has a whole step's time.
        """
        if cell is None:
            known = options.train_options("%dist_train")
            ours, script = options.split_script(known, line)
            return train_script(self.shell, known.read_words(ours), script)
        chosen = options.train_options("%%dist_train").read(line)
        source = check_cell(self.shell, cell, "%%dist_train")
        return train(self.shell, chosen, RunKind.CELL, source)

    @line_cell_magic
    def dist_setup(self, line: str, cell: str | None = None) -> None:
        """Run the cell on every rank now, and again whenever ranks start anew.

        %%dist_setup [--name NAME] [--cluster NAME]

        %dist_setup --clear forgets all that are kept.
        """
        chosen = options.setup_options("%%dist_setup").read(line)
        if chosen.clear:
            with Store() as store:
                store.clear_setups(chosen.cluster)
            print(f"Cluster {chosen.cluster!r} repeats no set-up cell any longer.")
        if cell is not None or not chosen.clear:
            source = check_cell(self.shell, cell or "", "%%dist_setup")
            set_up(self.shell, chosen.cluster, chosen.name or "cell", source)

    @line_magic
    def dist_status(self, line: str) -> None:
        """Show the cluster, its nodes and ranks, and every unfinished run with its whole curve.

        %dist_status [--cluster NAME]
        """
        cluster = options.cluster_options("%dist_status").read(line).cluster
        with Store() as store:
            keep_awake(store, cluster)
            display(dict(cluster_status(store, cluster)), raw=True)
            unfinished = store.unfinished(cluster)
            if not unfinished:
                print(last_run_line(store, cluster))
        for run in unfinished:
            watch(run.id, page_for(self.shell))

    @line_magic
    def dist_runs(self, line: str) -> None:
        """List the runs; with names, show these in one picture.

        %dist_runs [NAME]... [--limit N]
        """
        chosen = options.runs_options("%dist_runs").read(line)
        with Store() as store:
            now = time.time()
            if chosen.names:
                display(dict(comparison(store, chosen.names, now)), raw=True)
            else:
                display(dict(newest_runs(store, chosen.limit, now)), raw=True)

    @line_magic
    def dist_plan(self, line: str) -> None:
        """Show what an epoch would take and cost on numbers of nodes, and where more stop paying.

        %dist_plan [RUN] [--ec2 | --rehearse] [--region NAME] [--type T]... [--gpus N]
                   [--network GBITS] [--most N] [--plain] [--total-batch] [--interruptions R]
                   [--step SECONDS] [--gradients BYTES] [--batch N] [--examples N] [--gpu NAME]
                   [--cluster NAME]

        It goes by the newest run that was measured; what is said takes the place of what is not.
        """
        chosen = options.plan_options("%dist_plan").read(line)
        with Store() as store:
            display(dict(planned(store, chosen)), raw=True)

    @line_magic
    def dist_stop(self, line: str) -> None:
        """Stop a run at an iteration boundary: the one that goes on, or the one that is named.

        %dist_stop [NAME] [--cluster NAME]
        """
        chosen = options.stop_options("%dist_stop").read(line)
        with Store() as store:
            print(stop_line(ask_stop(store, " ".join(chosen.run), chosen.cluster)))

    @line_magic
    def dist_resize(self, line: str) -> None:
        """Ask for another number of ranks, or of nodes; with 0 nodes nothing is paid.

        What more nodes on EC2 cost is said first, and --yes agrees to it.

        %dist_resize N [--oversubscribe] [--wait] [--cluster NAME]

        %dist_resize --nodes N [--yes] [--wait] [--cluster NAME]
        """
        chosen = options.resize_options("%dist_resize").read(line)
        print(resize(chosen))
        if chosen.wait:
            await_ready(chosen.cluster, page_for(self.shell))

    @line_magic
    def dist_interrupt(self, line: str) -> None:
        """Have a rehearsal take a node back, or the newest, to see what becomes of a run.

        %dist_interrupt [NODE] [--notice SECONDS] [--cluster NAME]
        """
        chosen = options.interrupt_options("%dist_interrupt").read(line)
        with Store() as store:
            taken = ask_interruption(store, chosen.node, chosen.notice, cluster=chosen.cluster)
        when = f" in {duration(chosen.notice)}" if chosen.notice else ""
        print(f"The rehearsal takes {taken} back{when}; %dist_status shows what follows.")

    @line_magic
    def dist_bandwidth(self, line: str) -> None:
        """Measure links between nodes, allreduces over sizes, disks and devices, and say what for.

        %dist_bandwidth [--rating GBITS] [--cluster NAME]

        It takes less than two minutes on eight nodes; Stop ends it between two measurements.
        """
        chosen = options.bandwidth_options("%dist_bandwidth").read(line)
        measure(self.shell, chosen.cluster, chosen.rating)

    @line_magic
    def dist_down(self, line: str) -> None:
        """Take a cluster down; its unfinished runs are stopped, and all runs stay in the store.

        %dist_down [--wait] [--cluster NAME]
        """
        chosen = options.down_options("%dist_down").read(line)
        with Store() as store:
            ask_down(store, cluster=chosen.cluster)
        print(f"Asked for cluster {chosen.cluster!r} to be gone; its runs are kept.")
        if chosen.wait:
            await_gone(chosen.cluster, page_for(self.shell))

    @line_magic
    def dist_doctor(self, line: str) -> None:
        """Examine what the ranks need of each machine, and say how to mend what is amiss.

        %dist_doctor [--cluster NAME]
        """
        cluster = options.cluster_options("%dist_doctor").read(line).cluster
        found = [*ask_doctor(cluster), *folded(hosts_findings(cluster))]
        display(dict(findings_table(found)), raw=True)
