"""Measure the cluster and show the result below a cell."""

from __future__ import annotations

from typing import Any

from workbench.notebook.kernel_control import KernelControl
from workbench.notebook.run_request import attend, say_start, say_wait, wish_before
from workbench.requests.measurement import ask_measurement
from workbench.store import Store


def measure(shell: Any, cluster: str, rating: float | None) -> None:
    """Measure, and show the results; an interrupt stops between two steps."""
    with Store() as store, KernelControl(shell).interrupts() as interrupts:
        before, is_up = wish_before(store, cluster)
        wish = ask_measurement(store, cluster=cluster, rating=rating)
        say_start(store, cluster, before, is_up)
        say_wait(store, wish)
        attend(shell, store, wish, interrupts)
