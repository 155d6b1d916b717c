"""The magics: each parses, calls and displays."""

from __future__ import annotations

import time

from IPython.core.magic import Magics, line_cell_magic, line_magic, magics_class
from IPython.display import display

from workbench.core.fleet.provider import simulated_providers
from workbench.core.node.host_findings import fold_findings
from workbench.core.options.table import collect_settings
from workbench.core.run.model import RunKind
from workbench.notebook.cell_output import page_for, say
from workbench.notebook.chosen_cluster import choose, forget
from workbench.notebook.cluster_actions import (
    await_gone,
    await_ready,
    hosts_findings,
    measure,
    resize,
)
from workbench.notebook.cluster_panel import ClusterPanel, panel_for
from workbench.notebook.handle import RunHandle, watch
from workbench.notebook.magicspecs import explain_options, read
from workbench.notebook.run_listing import (
    about,
    cluster_status,
    comparison,
    delete,
    findings_table,
    last_run_line,
    newest_runs,
)
from workbench.notebook.run_request import check_cell, resume, set_up, train, train_script
from workbench.requests.cloud_queries import ask_doctor
from workbench.requests.cluster import (
    ask_down,
    ask_keep,
    is_deleted,
    remove_cluster,
    store_to_leave,
)
from workbench.requests.run import ask_stop, stop_line
from workbench.requests.supervisor import keep_awake
from workbench.requests.sweep import ask_sweep_stop
from workbench.store import Store
from workbench.view.cluster_changes import (
    check_purge,
    deletion_sentence,
    interrupt_node,
    kept_sentence,
    purge_hosts,
    removed_sentence,
)


@magics_class
class WorkbenchMagics(Magics):
    """Train on every MPI rank from a notebook."""

    @line_magic
    @explain_options
    def dist_cluster(self, line: str) -> ClusterPanel:
        """Show a cluster: actual and desired size, price and time to live; and change it."""
        chosen = read("%dist_cluster", line)
        say(choose(chosen.cluster))
        panel = panel_for(chosen.cluster)
        for place in simulated_providers():
            if (nodes := getattr(chosen, place.flag)) is None:
                continue
            panel.start_nodes(place, nodes, dict(collect_settings(vars(chosen))))
            await_ready(chosen.cluster, page_for(self.shell))
        return panel

    @line_cell_magic
    @explain_options
    def dist_train(self, line: str, cell: str | None = None) -> RunHandle | None:
        """Run the cell, or a script, on every rank; show curves and output below."""
        if cell is None:
            chosen = read("%dist_train", line)
            return train_script(self.shell, chosen, vars(chosen).pop("script"))
        chosen = read("%%dist_train", line)
        source = check_cell(self.shell, cell, "%%dist_train")
        if chosen.resume:
            return resume(self.shell, chosen, source)
        return train(self.shell, chosen, RunKind.CELL, source)

    @line_cell_magic
    @explain_options
    def dist_sweep(self, line: str, cell: str | None = None) -> None:
        """Run the cell, or a script, with many parameters; show its trials and the best one."""
        # Imported here, because its pictures take as long as the rest of %load_ext.
        from workbench.notebook.sweep import run_sweep

        if cell is None:
            chosen = read("%dist_sweep", line)
            run_sweep(self.shell, chosen, None, vars(chosen).pop("script"))
            return
        chosen = read("%%dist_sweep", line)
        run_sweep(self.shell, chosen, check_cell(self.shell, cell, "%%dist_sweep"), [])

    @line_cell_magic
    @explain_options
    def dist_setup(self, line: str, cell: str | None = None) -> None:
        """Run the cell on every rank now, and again whenever ranks are restarted."""
        chosen = read("%%dist_setup", line)
        if chosen.clear:
            with Store() as store:
                store.clear_setups(chosen.cluster)
            say(f"The set-up cells of cluster {chosen.cluster!r} are removed.")
        if cell is not None or not chosen.clear:
            source = check_cell(self.shell, cell or "", "%%dist_setup")
            set_up(self.shell, chosen.cluster, chosen.name or "cell", source)

    @line_magic
    @explain_options
    def dist_status(self, line: str) -> None:
        """Show the cluster, its nodes and ranks, and every unfinished run with its whole curve."""
        cluster = read("%dist_status", line).cluster
        with Store() as store:
            keep_awake(store, cluster)
            display(dict(cluster_status(store, cluster)), raw=True)
            unfinished = store.list_unfinished(cluster)
            if not unfinished and store.cluster_wish(cluster) is not None:
                say(last_run_line(store, cluster))
        for run in unfinished:
            watch(run.id, page_for(self.shell))

    @line_magic
    @explain_options
    def dist_runs(self, line: str) -> None:
        """List the newest runs, compare runs, or delete them."""
        chosen = read("%dist_runs", line)
        with store_to_leave() if chosen.delete else Store() as store:
            now = time.time()
            if chosen.delete:
                say(delete(store, chosen))
            elif chosen.names:
                display(dict(comparison(store, chosen.names, now)), raw=True)
                if said := about(store, chosen.names):
                    display(dict(said), raw=True)
            else:
                display(dict(newest_runs(store, chosen.limit, now, printed=chosen.all)), raw=True)

    @line_magic
    @explain_options
    def dist_plan(self, line: str) -> None:
        """Predict time and cost of an epoch for numbers of nodes, and where more stop paying."""
        # Imported here, because the models take as long as the rest of %load_ext.
        from workbench.notebook.plan_view import build_plan

        chosen = read("%dist_plan", line)
        with Store() as store:
            display(dict(build_plan(store, chosen)), raw=True)

    @line_magic
    @explain_options
    def dist_stop(self, line: str) -> None:
        """Stop a run after its current iteration, or a sweep."""
        chosen = read("%dist_stop", line)
        name = " ".join(chosen.run)
        with Store() as store:
            said = ask_sweep_stop(store, name)
            say(said or stop_line(ask_stop(store, name, chosen.cluster)))

    @line_magic
    @explain_options
    def dist_resize(self, line: str) -> None:
        """Change the number of ranks or of nodes; 0 nodes cost nothing."""
        chosen = read("%dist_resize", line)
        say(resize(chosen))
        if chosen.wait:
            await_ready(chosen.cluster, page_for(self.shell))

    @line_magic
    @explain_options
    def dist_keep(self, line: str) -> None:
        """Keep the nodes of a cluster that has nothing to do, which are given back otherwise."""
        chosen = read("%dist_keep", line)
        with Store() as store:
            say(kept_sentence(ask_keep(store, cluster=chosen.cluster, now=time.time())))

    @line_magic
    @explain_options
    def dist_interrupt(self, line: str) -> None:
        """Have a simulated node taken back, as spot nodes are, to see how a run recovers."""
        chosen = read("%dist_interrupt", line)
        with Store() as store:
            said = interrupt_node(
                store, chosen.node, chosen.notice, chosen.cluster,
                history=chosen.history, speed=chosen.speed, skip=chosen.skip, span=chosen.span,
            )  # fmt: skip
            say(said)

    @line_magic
    @explain_options
    def dist_bandwidth(self, line: str) -> None:
        """Measure links between nodes, allreduce over sizes, disks and devices."""
        chosen = read("%dist_bandwidth", line)
        measure(self.shell, chosen.cluster, chosen.rating)

    @line_magic
    @explain_options
    def dist_delete(self, line: str) -> None:
        """Delete a cluster with its nodes; a second call removes it from all lists."""
        chosen = read("%dist_delete", line)
        with store_to_leave() as store:
            if chosen.purge:
                check_purge(store, chosen.cluster, waits=True)
            if is_deleted(store, chosen.cluster):
                if chosen.purge:
                    say(purge_hosts(store, chosen.cluster))
                remove_cluster(store, cluster=chosen.cluster)
                say(removed_sentence(chosen.cluster))
                say(forget(chosen.cluster))
                return
            sentence = deletion_sentence(store, chosen.cluster)
            ask_down(store, cluster=chosen.cluster)
        say(sentence)
        say(forget(chosen.cluster))
        if chosen.wait or chosen.purge:
            await_gone(chosen.cluster, page_for(self.shell))
        if chosen.purge:
            with store_to_leave() as store:
                say(purge_hosts(store, chosen.cluster))

    @line_magic
    @explain_options
    def dist_doctor(self, line: str) -> None:
        """Check this machine and the hosts for problems, and print how to fix each one."""
        cluster = read("%dist_doctor", line).cluster
        found = [*ask_doctor(cluster), *fold_findings(hosts_findings(cluster))]
        display(dict(findings_table(found)), raw=True)
