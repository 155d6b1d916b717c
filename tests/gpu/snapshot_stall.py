"""Measure how long a training step of PyTorch on the GPU waits for a snapshot of its state."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from statistics import median
from typing import Any

UNITS, LAYERS, STEPS, SNAPSHOTS = 4096, 5, 20, 5


def snapshot_stall() -> str:
    """Return what a step takes, and what is added by a snapshot that is waited for, and not."""
    import torch

    from workbench.frameworks.torch.device_copies import COPIES
    from workbench.frameworks.torch.entries import ModuleEntry, TorchOptimizerEntry, copy_to_host

    torch.manual_seed(20_260)
    layers = [torch.nn.Linear(UNITS, UNITS) for _ in range(LAYERS)]
    model = torch.nn.Sequential(*layers).cuda(0)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
    x = torch.rand(4096, UNITS, device="cuda:0")
    state: dict[str, Any] = {"model": model, "optimizer": optimizer}
    entries = [ModuleEntry(state, "model"), TorchOptimizerEntry(state, "optimizer")]

    def step() -> None:
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()

    def seconds(before: Callable[[], None]) -> float:
        torch.cuda.synchronize()
        begun = time.perf_counter()
        before()
        step()
        torch.cuda.synchronize()
        return time.perf_counter() - begun

    plain = median(seconds(lambda: None) for _ in range(STEPS))
    spare = [one.memory()() for one in entries]
    seen: list[Any] = []

    def later() -> None:
        seen[:] = [one.common(before) for one, before in zip(entries, spare, strict=True)]
        threading.Thread(target=COPIES.wait).start()

    def at_once() -> None:
        values = [model.state_dict(), optimizer.state_dict()]
        for value, before in zip(values, spare, strict=True):
            copy_to_host(value, before)

    def into_new_memory() -> None:
        for value in (model.state_dict(), optimizer.state_dict()):
            copy_to_host(value, None)

    found = {}
    for name, one in (("later", later), ("pinned", at_once), ("new memory", into_new_memory)):
        times = []
        for _ in range(SNAPSHOTS):
            times.append(seconds(one))
            COPIES.wait()
        found[name] = median(times) - plain
    before = [one.detach().clone() for one in model.parameters()]
    later()
    step()
    COPIES.wait()
    assert all(
        bool((one.cpu() == copied).all())
        for one, copied in zip(before, seen[0].values(), strict=True)
    ), "the copy has what a later step has written"
    nbytes = 3 * sum(one.numel() * one.element_size() for one in model.parameters())
    rest = ", ".join(f"{name} {1e3 * took:.1f} ms" for name, took in found.items())
    assert found["later"] < found["pinned"], found
    return f"{nbytes / 1e9:.2f} GB, a step {1e3 * plain:.1f} ms; a snapshot adds {rest}"
