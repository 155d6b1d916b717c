"""The notebook's side: magics, the cluster panel, and the view of a run."""

from __future__ import annotations

from typing import Any

__all__ = ["load_ipython_extension", "unload_ipython_extension"]


def load_ipython_extension(ipython: Any) -> None:
    """Register the magics; called by ``%load_ext workbench``."""
    from workbench.notebook.magics import WorkbenchMagics

    ipython.register_magics(WorkbenchMagics)


def unload_ipython_extension(ipython: Any) -> None:
    """Take the magics back and follow nothing any longer; the runs go on."""
    from workbench.notebook import cluster_panel, handle

    for kind in ("line", "cell"):
        magics = ipython.magics_manager.magics[kind]
        for name in [name for name in magics if name.startswith("dist_")]:
            del magics[name]
    handle.leave_all()
    cluster_panel.close_all()
