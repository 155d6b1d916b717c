"""Have the cluster measured below a cell."""

from __future__ import annotations

from typing import Any

from workbench.notebook.launch import attend, cluster_is_up, say_start
from workbench.store import Store
from workbench.store.measuring import ask_measurement
from workbench.view.interrupts import Interrupts


def measure(shell: Any, cluster: str, rating: float | None) -> None:
    """Measure, and show what was found; an interrupt stops between two steps."""
    with Store() as store, Interrupts() as interrupts:
        is_up = cluster_is_up(store, cluster)
        wish = ask_measurement(store, cluster=cluster, rating=rating)
        say_start(store, cluster, is_up)
        attend(shell, store, wish, interrupts)
