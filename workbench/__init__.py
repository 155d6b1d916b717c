"""From a notebook, many machines act like one: run a training cell on every MPI rank."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing itself would cost every start of Python more than all of this file
    from typing import Any

    from workbench.engine.elastic.global_batches import GlobalBatches
    from workbench.engine.elastic.loop import elastic
    from workbench.engine.reporting.report import report
    from workbench.frameworks.chainer.create import create_communicator
    from workbench.frameworks.chainer.linear_scaling import LinearScaling
    from workbench.notebook import unload_ipython_extension
    from workbench.store import Store

__version__ = "0.1.0"
__all__ = [
    "GlobalBatches",
    "LinearScaling",
    "Store",
    "client",
    "create_communicator",
    "elastic",
    "load_ipython_extension",
    "report",
    "unload_ipython_extension",
]

# Nothing is imported before it is asked for: every Python start runs through this file once the
# wheel's .pth is in place, and a rank needs no notebook.
_HOMES = {
    "GlobalBatches": "workbench.engine.elastic.global_batches",
    "LinearScaling": "workbench.frameworks.chainer.linear_scaling",
    "Store": "workbench.store",
    "create_communicator": "workbench.frameworks.chainer.create",
    "elastic": "workbench.engine.elastic.loop",
    "report": "workbench.engine.reporting.report",
    "unload_ipython_extension": "workbench.notebook",
}


def client(cluster: str | None = None, **options: Any) -> Any:
    """Return an ``ipyparallel.Client`` of a running cluster; ``%%px`` then means its ranks.

    Args:
        cluster: The cluster's name; None for the one that the notebook uses.
        options: Passed on to ``ipyparallel.Client``.

    Raises:
        StateError: The cluster is not up.
    """
    from workbench.cluster.profile import connect
    from workbench.errors import StateError
    from workbench.notebook.chosen_cluster import chosen_cluster
    from workbench.store import Store

    cluster = cluster or chosen_cluster()
    with Store() as store:
        fact = store.cluster_fact(cluster)
    if not fact.connection_file:
        raise StateError(f"Cluster {cluster!r} is {fact.state}", "`workbench up` starts it.")
    return connect(fact.connection_file, **options)


def load_ipython_extension(shell: Any) -> None:
    """Add the magics to ``shell``, and the ``workbench`` profile for a plain ipyparallel."""
    from workbench import notebook
    from workbench.cluster.profile import install_profile
    from workbench.namesake import require_own_package

    require_own_package()
    install_profile()
    notebook.load_ipython_extension(shell)


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'workbench' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])
