"""Check everything about GPUs in one call: ``python tests/gpu/run.py``, from the checkout.

Needs a GPU, CuPy, and an environment with workbench in it. Prints one line a check, and ends with
``N passed, N failed``; the exit status is 1 if one failed. Checks of PyTorch say if it is absent.
With words as arguments, those checks are made whose name has one of them.
"""

from __future__ import annotations

import importlib.util
import re
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from clusters import Cluster
from snapshot_stall import snapshot_stall

import workbench.compat  # before chainer is imported
from workbench.cluster.doctor import examine_gpus

CHECKS: list[Callable[[], str]] = []
SEED = 20_260


def check(function: Callable[[], str]) -> Callable[[], str]:
    """Register a check; it returns what it saw."""
    CHECKS.append(function)
    return function


@check
def the_device_answers() -> str:
    import cupy

    finding = examine_gpus()
    assert finding.ok, finding
    free, total = cupy.cuda.runtime.memGetInfo()
    return f"{finding.found}, {free / 2**30:.0f} of {total / 2**30:.0f} GiB free"


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

    from workbench.engine.reporting.run_log import RunLog
    from workbench.engine.run_context import RunContext, set_current
    from workbench.frameworks.chainer.framework import ChainerFramework

    ChainerFramework().install()
    with tempfile.TemporaryDirectory() as folder:
        log = RunLog("gpu", 0, Path(folder) / "rank-0.log")
        set_current(RunContext(log))
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
            for iteration, _, values in (one for one in log._samples if isinstance(one, tuple))
            for name, value in values
            if name == "main/loss"
        ]
    assert [iteration for iteration, _ in losses] == list(range(1, 101))
    return f"100 losses in {seconds:.2f} s, the last {losses[-1][1]:.4f}"


@check
def the_way_to_the_gpu_and_on_it_is_measured() -> str:
    from workbench.engine.measurement.nodes import devices

    found = devices("here")
    assert [rate.what for rate in found] == [
        "host to device",
        "device to host",
        "device to device",
    ]
    assert all(1e8 < rate.bandwidth < 1e13 for rate in found)
    return ", ".join(f"{rate.what} {rate.bandwidth / 1e9:.1f} GB/s" for rate in found)


@check
def the_monitor_takes_norms_on_the_gpu() -> str:
    import cupy

    from workbench.frameworks.chainer.gradient_noise import squared_norm

    class Parameter:
        def __init__(self, grad: object) -> None:
            self.grad = grad

    class Model:
        def params(self) -> list[Parameter]:
            half = cupy.full((10, 10), 200, cupy.float16)
            return [Parameter(half), Parameter(cupy.ones(50, cupy.float32)), Parameter(None)]

    assert squared_norm(Model()) == 100 * 200.0**2 + 50
    return "of half and single precision"


def _model(value: float, dtype: str = "f4") -> Any:
    """Return a model on the GPU whose gradients are all ``value``."""
    import chainer
    import cupy
    import numpy as np

    with chainer.using_config("dtype", np.dtype(dtype)):
        model = chainer.Sequential(chainer.links.Linear(300, 400), chainer.links.Linear(400, 10))
    model.to_device("@cupy:0")
    for parameter in model.params():
        parameter.grad = cupy.full_like(parameter.array, value)
    return model


def _worst(model: Any, value: float) -> float:
    return max(float(abs(p.grad - value).max()) for p in model.params())


@check
def nccl_is_there_or_said_not_to_be() -> str:
    import cupy

    from workbench.engine.exchange.nccl import has_nccl

    assert has_nccl() == bool(cupy.cuda.nccl.available)
    version = cupy.cuda.nccl.get_version() if has_nccl() else "none"
    return f"NCCL {version}"


def _averaged(compress: str) -> str:
    """Average gradients on the GPU with one codec; say which way they went."""
    import workbench
    from workbench.engine.exchange.nccl import has_nccl

    comm = workbench.create_communicator(compress=compress)
    model = _model(0.5)
    before = [p.grad.data.ptr for p in model.params()]
    for _ in range(2):
        comm.multi_node_mean_grad(model)
    worst = _worst(model, 0.5)
    assert worst < 1e-3, (compress, worst)
    assert [p.grad.data.ptr for p in model.params()] == before, "gradients moved"
    by_nccl = comm.device.takes(model.params())
    assert by_nccl == (has_nccl() and compress in ("none", "fp16"))
    return f"{compress} by {'NCCL' if by_nccl else 'this host'}"


for _codec in ("none", "fp16", "bf16", "int8", "topk", "powersgd"):

    def _check(compress: str = _codec) -> str:
        return _averaged(compress)

    _check.__name__ = f"gradients_on_the_gpu_are_averaged_with_{_codec}"
    check(_check)


@check
def gradients_on_the_gpu_go_over_this_host_without_nccl() -> str:
    import numpy

    import workbench
    from workbench.engine.exchange import nccl

    real, nccl.has_nccl = nccl.has_nccl, lambda: False
    try:
        seen = []
        for dtype in ("f2", "f4", "f8"):
            model = _model(0.5, dtype)
            workbench.create_communicator().multi_node_mean_grad(model)
            assert {str(p.grad.dtype) for p in model.params()} == {str(numpy.dtype(dtype))}
            assert _worst(model, 0.5) == 0
            seen.append(dtype)
    finally:
        nccl.has_nccl = real
    return ", ".join(seen)


@check
def the_host_way_keeps_its_pinned_memory_from_step_to_step() -> str:
    import workbench
    from workbench.engine.exchange import nccl

    real, nccl.has_nccl = nccl.has_nccl, lambda: False
    try:
        comm, model = workbench.create_communicator(), _model(0.5)
        comm.multi_node_mean_grad(model)
        kept = {name: id(array) for name, array in comm.device._pinned.items()}
        comm.multi_node_mean_grad(model)
        assert {name: id(array) for name, array in comm.device._pinned.items()} == kept
    finally:
        nccl.has_nccl = real
    return f"{len(kept)} gradients"


@check
def chainermns_nccl_communicator_is_fed_in_the_type_that_is_asked_for() -> str:
    import numpy as np

    import workbench
    from workbench.engine.exchange.nccl import has_nccl

    if not has_nccl():
        return "no NCCL here, nothing to feed"
    seen = []
    for compress, kind in (("none", None), ("fp16", np.float16)):
        comm, model = workbench.create_communicator(compress=compress), _model(0.25)
        comm.multi_node_mean_grad(model)
        assert comm.device._nccl.get_config("allreduce_grad_dtype") == kind
        assert comm.device._nccl.get_config("batched_copy") is True
        assert _worst(model, 0.25) == 0
        seen.append(compress)
    return ", ".join(seen)


@check
def a_missing_gradient_on_the_gpu_is_filled_with_zeros() -> str:
    import workbench

    comm, model = workbench.create_communicator(compress="int8"), _model(0.5)
    model[1].b.grad = None
    comm.multi_node_mean_grad(model, zero_fill=True)
    assert float(abs(model[1].b.grad).max()) == 0
    return f"{model[1].b.grad.size} numbers"


@check
def a_gradient_on_the_gpu_that_is_not_finite_is_named() -> str:
    import workbench
    from workbench.engine.exchange import nccl
    from workbench.errors import GradientError

    real, nccl.has_nccl = nccl.has_nccl, lambda: False
    said = ""
    try:
        comm, model = workbench.create_communicator(), _model(0.5)
        model[0].W.grad[7, 7] = float("nan")
        comm.multi_node_mean_grad(model)
    except GradientError as error:
        said = str(error)
    finally:
        nccl.has_nccl = real
    assert "The gradient of /0/W on rank 0 is not finite" in said
    return said


@check
def nccl_between_gpus_is_measured_only_where_there_are_several() -> str:
    from mpi4py import MPI

    from workbench.engine.measurement.nodes import nccl

    assert nccl(MPI.COMM_SELF, 0) == ([], "")
    return "one rank has no one to measure with"


@check
def gradients_of_torch_on_the_gpu_are_averaged() -> str:
    try:
        import torch
    except ImportError:
        return "no torch here"
    if not torch.cuda.is_available():
        return "this torch has no GPU"
    import workbench

    model = torch.nn.Linear(300, 400).cuda()
    model(torch.ones(2, 300, device="cuda")).sum().backward()
    assert model.weight.grad is not None
    wanted = model.weight.grad.clone()
    workbench.create_communicator().allreduce_gradients(model.named_parameters())
    assert model.weight.grad.is_cuda
    assert bool((model.weight.grad == wanted).all())
    return f"torch {torch.__version__}"


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


cluster = Cluster()
EXCHANGES = {
    "without an option": (),
    "by our communicator": ("--communicator", "auto"),
    "with int8": ("--compress", "int8"),
    "with powersgd": ("--compress", "powersgd"),
    "with double buffering": ("--double-buffering",),
}

for _name, _options in EXCHANGES.items():

    def _check_chainer(options: tuple[str, ...] = _options) -> str:
        return cluster.trains("chainer_training.py", options=options)

    def _check_torch(options: tuple[str, ...] = _options) -> str:
        return _with_torch("torch_training.py", options=options)

    _check_chainer.__name__ = f"two_ranks_train_with_chainer_on_one_gpu {_name}"
    _check_torch.__name__ = f"two_ranks_train_with_torch_on_one_gpu {_name}"
    check(_check_chainer)
    check(_check_torch)


def _with_torch(script: str, *arguments: str, options: tuple[str, ...] = ()) -> str:
    if importlib.util.find_spec("torch") is None:
        return "no torch here"
    return cluster.trains(script, *arguments, options=options)


@check
def a_new_cluster_has_a_rank_per_gpu() -> str:
    import cupy

    from workbench.requests.cluster import usual_ranks

    assert usual_ranks() == cupy.cuda.runtime.getDeviceCount()
    return f"{usual_ranks()}"


@check
def every_call_of_chainermn_takes_arrays_on_a_gpu() -> str:
    return cluster.checks("chainermn_calls.py")


@check
def one_rank_trains_by_nccl() -> str:
    from workbench.engine.exchange.nccl import has_nccl

    if not has_nccl():
        return "no NCCL here"
    script = "chainer_training.py", "pure_nccl"
    options = ((), ("--communicator", "auto"), ("--compress", "fp16"))
    return " and ".join(cluster.trains(*script, options=("--ranks", "1", *o)) for o in options)


@check
def one_rank_trains_with_torch_by_nccl_in_two_runs() -> str:
    seen = {_with_torch("torch_training.py", "nccl", options=("--ranks", "1")) for _ in range(2)}
    return " and ".join(seen)


@check
def a_script_of_horovod_trains_on_one_gpu() -> str:
    return _with_torch("horovod_training.py")


@check
def a_training_of_chainer_survives_the_loss_of_a_rank() -> str:
    return cluster.trains("chainer_training.py", "naive", "lost-trainer")


@check
def an_elastic_loop_of_chainer_survives_the_loss_of_a_rank() -> str:
    return cluster.trains("elastic_chainer.py", "lost-chainer")


@check
def an_elastic_loop_of_torch_survives_the_loss_of_a_rank() -> str:
    return _with_torch("elastic_torch.py", "lost-torch")


@check
def a_snapshot_of_torch_s_state_on_the_gpu_is_not_waited_for() -> str:
    if importlib.util.find_spec("torch") is None:
        return "no torch here"
    return snapshot_stall()


@check
def a_divided_model_of_torch_survives_the_loss_of_its_rank_by_nccl() -> str:
    return _with_torch("sharded_torch.py", "nccl", "lost-nccl", options=("--ranks", "1"))


@check
def a_divided_model_of_torch_survives_the_loss_of_a_rank_by_gloo() -> str:
    return _with_torch("sharded_torch.py", "gloo", "lost-gloo")


def _survives(library: str, script: str, *arguments: str, ranks: int) -> str:
    """Train with the last rank killed in the middle, which changes no loss of the training."""
    if importlib.util.find_spec(library) is None:
        return f"no {library} here"
    options = ("--ranks", str(ranks))
    whole = _with_torch(script, *arguments, options=options)
    lost = f"lost-{library}-{ranks}"
    found = _with_torch(script, *arguments, lost, options=options)
    before, after = (float(re.findall(r"loss (\S+)", one)[0]) for one in (whole, found))
    assert abs(after - before) < 1e-4 * before, (whole, found)
    run = cluster.newest_run()
    assert run.fact.attempt == 2, run.fact
    assert run.fact.resumed_at > 0, run.fact
    return f"{found}, resumed at {run.fact.resumed_at}; undisturbed {whole}"


SHARED, ALONE = (2, "gloo"), (1, "nccl")  # NCCL takes no GPU that ranks share

for _ranks, _backend in (SHARED, ALONE):

    def _check_trainer(ranks: int = _ranks, backend: str = _backend) -> str:
        return _survives("transformers", "transformers_trainer.py", backend, ranks=ranks)

    def _check_accelerate(ranks: int = _ranks, backend: str = _backend) -> str:
        return _survives("accelerate", "accelerate_loop.py", backend, ranks=ranks)

    def _check_lightning(ranks: int = _ranks) -> str:
        return _survives("lightning", "lightning_fit.py", ranks=ranks)  # chooses by itself

    _check_trainer.__name__ = f"a_trainer_of_transformers_survives_the_loss_of_a_rank_of {_ranks}"
    _check_accelerate.__name__ = f"a_loop_of_accelerate_survives_the_loss_of_a_rank_of {_ranks}"
    _check_lightning.__name__ = f"a_fit_of_lightning_survives_the_loss_of_a_rank_of {_ranks}"
    for _one in (_check_trainer, _check_accelerate, _check_lightning):
        check(_one)


@check
def bandwidth_has_the_gpu_s_copies_and_says_why_there_is_no_nccl() -> str:
    from workbench.engine.exchange.nccl import has_nccl

    said = cluster.said("bandwidth")
    wanted = ["device to device", "device to host", "host to device"]
    assert all(one in said for one in wanted), said
    assert not has_nccl() or "several ranks share a GPU" in said, said
    rates = re.findall(rf"({'|'.join(wanted)}) +(\S+ \S+)", said)
    return ", ".join(" ".join(rate) for rate in rates)


def main(words: Sequence[str]) -> int:
    """Run the checks, and return how many failed.

    Args:
        words: Parts of the names of those that are made; all without one.
    """
    with cluster:
        return _failures(words)


def _failures(words: Sequence[str]) -> int:
    passed = failed = 0
    for function in CHECKS:
        name = function.__name__.replace("_", " ")
        if function is not the_device_answers and not any(one in name for one in words or [""]):
            continue
        try:
            print(f"ok      {name}: {function()}", flush=True)
            passed += 1
        except Exception:  # noqa: BLE001  # a check may fail in any way, and the others still run
            failed += 1
            print(f"FAILED  {name}\n{traceback.format_exc()}", flush=True)
            if function is the_device_answers:
                break  # without it, no other check can pass
    print(f"{passed} passed, {failed} failed")
    return failed


if __name__ == "__main__":
    print(f"seed: {SEED}")
    sys.exit(bool(main(sys.argv[1:])))
