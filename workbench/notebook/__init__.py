"""The notebook interface: magics, the cluster panel, and the view of a run."""

from __future__ import annotations

from typing import Any

__all__ = ["load_ipython_extension", "unload_ipython_extension"]


def load_ipython_extension(ipython: Any) -> None:
    """Register the magics; called by ``%load_ext workbench``."""
    from workbench.notebook import completion
    from workbench.notebook.magics import WorkbenchMagics

    ipython.register_magics(WorkbenchMagics)
    completion.add_to(ipython)


def unload_ipython_extension(ipython: Any) -> None:
    """Remove the magics and stop following runs; the runs continue."""
    from workbench.core.cluster.model import DEFAULT_CLUSTER
    from workbench.notebook import chosen_cluster, cluster_panel, completion, handle

    for kind in ("line", "cell"):
        magics = ipython.magics_manager.magics[kind]
        for name in [name for name in magics if name.startswith("dist_")]:
            del magics[name]
    completion.remove_from(ipython)
    handle.leave_all()
    cluster_panel.close_all()
    chosen_cluster.choose(DEFAULT_CLUSTER)
