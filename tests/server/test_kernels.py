"""What the Jupyter server does to a kernel leaves its run alone, but for an interrupt."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from workbench.core.run.model import Run
from workbench.store import Store

pytestmark = [pytest.mark.kernel, pytest.mark.timeout(120)]

CELLS = (
    "%load_ext workbench\nfrom workbench.view.pictures.curve_picture import warm_up\nwarm_up()",
    "%%dist_train --name digits\npass",
)


async def until(condition: Callable[[], Any], seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not come to pass"
        await asyncio.sleep(0.05)


@pytest.fixture
def training(jp_serverapp, store):
    """Give the id of a kernel whose cell follows a run."""
    kernels = jp_serverapp.kernel_manager

    @asynccontextmanager
    async def training() -> AsyncIterator[str]:
        identity = await kernels.start_kernel()
        client = kernels.get_kernel(identity).client()
        client.start_channels()
        try:
            await client.wait_for_ready(timeout=60)
            for cell in CELLS:
                client.execute(cell)
            while "digits: queued" not in str((await client.get_iopub_msg(timeout=60))["content"]):
                pass
            yield identity
        finally:
            client.stop_channels()
            await kernels.shutdown_all(now=True)

    return training


def the_run(store: Store) -> Run:
    (run,) = store.list_unfinished("default")
    return run


async def test_a_restart_by_rest_leaves_the_run_alone(jp_fetch, training, store) -> None:
    async with training() as kernel:
        answer = await jp_fetch("api", "kernels", kernel, "restart", method="POST", body="{}")

        assert answer.code == 200
        assert not the_run(store).wish.stop


async def test_a_shutdown_by_rest_leaves_the_run_alone(jp_fetch, training, store) -> None:
    async with training() as kernel:
        answer = await jp_fetch("api", "kernels", kernel, method="DELETE")

        assert answer.code == 204
        assert not the_run(store).wish.stop


async def test_the_end_of_the_server_leaves_the_run_alone(jp_serverapp, training, store) -> None:
    async with training():
        await jp_serverapp.cleanup_kernels()

        assert not the_run(store).wish.stop


async def test_an_interrupt_by_rest_stops_the_run(jp_fetch, training, store) -> None:
    async with training() as kernel:
        await jp_fetch("api", "kernels", kernel, "interrupt", method="POST", body="{}")

        await until(lambda: the_run(store).wish.stop, 10)


async def test_a_kernel_that_is_culled_leaves_the_run_alone(jp_serverapp, training, store) -> None:
    kernels = jp_serverapp.kernel_manager
    async with training() as kernel:
        kernels.cull_idle_timeout, kernels.cull_busy, kernels.cull_connected = 1, True, True
        deadline = time.monotonic() + 30
        while kernel in kernels and time.monotonic() < deadline:  # it takes a second in silence
            await kernels.cull_kernel_if_idle(kernel)
            await asyncio.sleep(0.1)

        assert kernel not in kernels
        assert not the_run(store).wish.stop
