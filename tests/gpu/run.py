"""Check everything about GPUs in one call: ``python tests/gpu/run.py``, from the checkout.

Needs a GPU, CuPy and chainer 7.8.1; needs neither MPI ranks nor pytest. Prints one line a check
and ends with ``N passed, N failed``; the exit status is 1 if one failed.
"""

from __future__ import annotations

import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

import workbench.compat  # before chainer is imported

CHECKS: list[Callable[[], str]] = []
SEED = 20_260


def check(function: Callable[[], str]) -> Callable[[], str]:
    """Register a check; it returns what it saw."""
    CHECKS.append(function)
    return function


@check
def the_device_answers() -> str:
    import cupy

    properties = cupy.cuda.runtime.getDeviceProperties(0)
    free, total = cupy.cuda.runtime.memGetInfo()
    name = properties["name"].decode()
    return f"{name}, CuPy {cupy.__version__}, {free / 2**30:.0f} of {total / 2**30:.0f} GiB free"


@check
def chainer_finds_cupy_through_the_compat_layer() -> str:
    import chainer

    assert chainer.backends.cuda.available
    return f"{workbench.compat.status()}"


def _train(device: str) -> list[float]:
    import chainer
    import numpy as np

    random = np.random.RandomState(SEED)
    np.random.seed(SEED)
    images = random.rand(256, 1, 8, 8).astype(np.float32)
    labels = (images.sum(axis=(1, 2, 3)) > 32).astype(np.int32)
    net = chainer.Sequential(
        chainer.links.Convolution2D(1, 8, 3, initialW=chainer.initializers.Normal(0.2, rng=random)),
        chainer.functions.relu,
        chainer.links.Linear(288, 2, initialW=chainer.initializers.Normal(0.05, rng=random)),
    )
    model = chainer.links.Classifier(net)
    model.to_device(device)
    optimizer = chainer.optimizers.MomentumSGD(0.05).setup(model)
    xp = chainer.get_device(device).xp
    losses = []
    for _ in range(10):
        optimizer.update(model, xp.asarray(images), xp.asarray(labels))
        losses.append(float(model.loss.array))
    return losses


@check
def a_small_net_loses_alike_on_processor_and_gpu() -> str:
    here, there = _train("@numpy"), _train("@cupy:0")
    worst = max(abs(a - b) / a for a, b in zip(here, there, strict=True))
    assert worst < 1e-3, (here, there)
    assert there[-1] < there[0]
    return f"loss {there[0]:.4f} to {there[-1]:.4f}, worst relative difference {worst:.1e}"


@check
def gradients_are_packed_and_unpacked_by_chainermns_kernels() -> str:
    import chainer
    import cupy
    import numpy as np
    from chainermn.communicators import _memory_utility as memory

    seen = []
    for transfer in (np.float16, np.float32):
        model = chainer.Sequential(chainer.links.Linear(4, 3), chainer.links.Linear(3, 2))
        model.to_device("@cupy:0")
        for parameter in model.params():
            parameter.grad = cupy.full_like(parameter.array, 0.5)
        params = [p for _, p in sorted(model.namedparams())]
        count = sum(p.size for p in params)
        data = memory.ParamsData(params, "grad", False)
        buffer = memory.DeviceMemory()
        buffer.assign(count * np.dtype(transfer).itemsize)
        memory._batched_pack_params(data, buffer, transfer)
        for parameter in model.params():
            parameter.grad.fill(0)
        memory._batched_unpack_params(data, buffer, transfer)
        assert all(float(abs(p.grad - 0.5).max()) == 0 for p in params)
        seen.append(np.dtype(transfer).name)
    return f"{count} gradients as {' and '.join(seen)}"


@check
def a_trainer_on_the_gpu_reports_every_iteration() -> str:
    import chainer
    import numpy as np

    from workbench.engine.chainer_hook import hook_chainer
    from workbench.engine.current import Current, set_current
    from workbench.engine.log import RunLog

    hook_chainer()
    with tempfile.TemporaryDirectory() as folder:
        log = RunLog("gpu", 0, Path(folder) / "rank-0.log")
        set_current(Current(log))
        data = chainer.datasets.TupleDataset(
            np.random.rand(512, 16).astype(np.float32), np.zeros(512, np.int32)
        )
        model = chainer.links.Classifier(chainer.links.Linear(16, 2))
        model.to_device("@cupy:0")
        optimizer = chainer.optimizers.SGD().setup(model)
        iterator = chainer.iterators.SerialIterator(data, 16)
        updater = chainer.training.StandardUpdater(iterator, optimizer, device="@cupy:0")
        trainer = chainer.training.Trainer(updater, (100, "iteration"), out=folder)
        start = time.perf_counter()
        trainer.run()
        seconds = time.perf_counter() - start
        set_current(None)
        losses = [
            (iteration, value)
            for iteration, _, values in log._samples
            for name, value in values
            if name == "main/loss"
        ]
    assert [iteration for iteration, _ in losses] == list(range(1, 101))
    return f"100 losses in {seconds:.2f} s, the last {losses[-1][1]:.4f}"


@check
def the_way_to_the_gpu_and_on_it_is_measured() -> str:
    from workbench.engine.measuring.nodes import devices

    found = devices("here")
    assert [rate.what for rate in found] == [
        "host to device",
        "device to host",
        "device to device",
    ]
    assert all(1e8 < rate.bandwidth < 1e13 for rate in found)
    return ", ".join(f"{rate.what} {rate.bandwidth / 1e9:.1f} GB/s" for rate in found)


@check
def the_gauge_takes_norms_on_the_gpu() -> str:
    import cupy

    from workbench.engine.gauge import squared_norm

    class Parameter:
        def __init__(self, grad: object) -> None:
            self.grad = grad

    class Model:
        def params(self) -> list[Parameter]:
            half = cupy.full((10, 10), 200, cupy.float16)
            return [Parameter(half), Parameter(cupy.ones(50, cupy.float32)), Parameter(None)]

    assert squared_norm(Model()) == 100 * 200.0**2 + 50
    return "of half and single precision"


@check
def gradients_on_the_gpu_are_averaged_by_our_communicator() -> str:
    import chainer
    import cupy

    import workbench
    from workbench.engine.exchange.device import has_nccl

    seen = []
    for compress in ("none", "fp16", "int8", "powersgd"):
        comm = workbench.create_communicator(compress=compress)
        model = chainer.Sequential(chainer.links.Linear(300, 400), chainer.links.Linear(400, 10))
        model.to_device("@cupy:0")
        for parameter in model.params():
            parameter.grad = cupy.full_like(parameter.array, 0.5)
        for _ in range(2):
            comm.multi_node_mean_grad(model)
        worst = max(float(abs(p.grad - 0.5).max()) for p in model.params())
        assert worst < 1e-3, (compress, worst)
        by_nccl = comm.device.takes(model.params())
        assert by_nccl == (has_nccl() and compress in ("none", "fp16"))
        seen.append(f"{compress} by {'NCCL' if by_nccl else 'this host'}")
    return ", ".join(seen)


@check
def a_model_on_the_gpu_is_trained_with_our_optimizers() -> str:
    import chainer
    import chainermn
    import cupy

    import workbench

    losses = []
    for double in (False, True):
        comm = workbench.create_communicator()
        model = chainer.links.Classifier(chainer.links.Linear(40, 10))
        model.to_device("@cupy:0")
        optimizer = chainermn.create_multi_node_optimizer(
            chainer.optimizers.SGD(0.5), comm, double_buffering=double
        ).setup(model)
        images, labels = cupy.eye(10, 40, dtype="f4"), cupy.arange(10, dtype="i4")
        for _ in range(12):
            optimizer.update(model, images, labels)
            losses.append(float(model.loss.array))
    assert losses[11] < losses[0]
    assert losses[23] < losses[12]
    return f"loss {losses[0]:.3f} to {losses[11]:.3f}, double buffering {losses[23]:.3f}"


def main() -> int:
    """Run all checks, and return how many failed."""
    failed = 0
    for function in CHECKS:
        name = function.__name__.replace("_", " ")
        try:
            print(f"ok      {name}: {function()}", flush=True)
        except Exception:  # noqa: BLE001  # a check may fail in any way, and the others still run
            failed += 1
            print(f"FAILED  {name}\n{traceback.format_exc()}", flush=True)
    print(f"{len(CHECKS) - failed} passed, {failed} failed")
    return failed


if __name__ == "__main__":
    print(f"seed: {SEED}")
    sys.exit(bool(main()))
