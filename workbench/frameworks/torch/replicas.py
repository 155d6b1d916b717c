"""Have our exchange average the gradients of DistributedDataParallel, by its communication hook.

Only a run with an option of the exchange does so. Without one nothing is registered.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from typing import Any

from mpi4py import MPI

from workbench.engine.exchange.bucket_exchange import BucketExchange, HostBucket
from workbench.engine.exchange.exchange_options import ExchangeOptions, find_exchange_option
from workbench.engine.timing.step_time import Exchanged
from workbench.errors import InputError
from workbench.frameworks.torch.averaging import HostCopies
from workbench.frameworks.torch.replica_times import ReplicaTimes

# NumPy sums these as they are; others travel in single precision.
_SUMMED = ("float32", "float64")


def refuse_options(what: str) -> None:
    """Refuse the run's exchange options for a wrapper that exchanges by itself.

    Raises:
        InputError: The run has such an option.
    """
    if option := find_exchange_option():
        raise InputError(
            f"{option} does not reach {what}, which exchanges gradients by itself",
            "leave the option out, or use DistributedDataParallel.",
        )


_exchange_of = weakref.WeakKeyDictionary[Any, BucketExchange]()
_resumed = weakref.WeakKeyDictionary[Any, dict[str, Any]]()


def exchange_state(module: Any) -> dict[str, Any] | None:
    """Return what the exchange of a replica's gradients keeps on this rank from step to step.

    Args:
        module: The one inside of the replica.
    """
    exchange = _exchange_of.get(module)
    if exchange is None:
        return _resumed.get(module)
    found = {"compression": exchange.compression(), "held_back": exchange.held_back()}
    return found if any(found.values()) else None


def resume_exchange(module: Any, state: dict[str, Any] | None, *, existed: bool) -> None:
    """Continue with what ``exchange_state`` returned, as soon as the module has an exchange.

    Args:
        existed: Whether the state is this rank's own; a new rank has no error of its own yet.
    """
    if state is None:
        return
    if not existed and state["compression"] is not None:
        state = {**state, "compression": {**state["compression"], "lost": {}}}
    if module in _exchange_of:
        _exchange_of[module].resume(**state)
    else:
        _resumed[module] = state


class Replicas:
    """The replicas of one run whose gradients our exchange averages."""

    def __init__(self, torch: Any, options: ExchangeOptions | None) -> None:
        self._torch, self._options = torch, options
        self._all, self._hooked = weakref.WeakSet[Any](), weakref.WeakSet[Any]()
        self._made: list[weakref.ref[Any]] = []
        self._exchanges = weakref.WeakKeyDictionary[Any, BucketExchange]()
        self._times = ReplicaTimes()

    def step(self) -> Exchanged:
        """Return what replicas that our exchange does not carry exchanged in the latest step."""
        return self._times.step()

    def shapes(self) -> list[tuple[int, ...]]:
        """Return the shapes of all replicas' gradients."""
        parameters = (parameter for one in self._all for parameter in one.parameters())
        return [tuple(one.shape) for one in parameters if one.requires_grad]

    def add(self, replica: Any) -> None:
        """Note a replica; its own hook may still be registered before its first backward pass."""
        self._all.add(replica)
        if self._options is None:
            self._times.add(replica)
        else:
            self._made.append(weakref.ref(replica))

    def note_hook(self, replica: Any) -> None:
        """Note that the program has registered a hook of its own."""
        self._hooked.add(replica)
        self._times.note_hook(replica)

    def before_backward(self) -> None:
        """Register our hook with the replicas that were made since; collective over theirs."""
        while self._made:
            replica = self._made.pop(0)()
            if replica is not None:
                self._register(replica)

    def _register(self, replica: Any) -> None:
        assert self._options is not None
        ranks = self._torch.distributed.get_process_group_ranks(replica.process_group)
        comm = self._communicator(ranks)
        if reason := self._obstacle(replica, comm):
            if MPI.COMM_WORLD.rank == ranks[0]:
                print(
                    f"workbench: {self._options.option} has no effect on a "
                    f"DistributedDataParallel: {reason}.",
                    flush=True,
                )
            self._times.add(replica)
            return
        exchange = self._exchanges[replica] = BucketExchange(comm, self._options)
        _exchange_of[replica.module] = exchange
        if (state := _resumed.pop(replica.module, None)) is not None:
            exchange.resume(**state)
        names = {id(p): name for name, p in replica.module.named_parameters()}
        hook = _Hook(self._torch, exchange, names)
        # A hook with annotations would have to have PyTorch's own.
        register = type(replica).register_comm_hook
        getattr(register, "__wrapped__", register)(
            replica, None, lambda state, bucket: hook(bucket)
        )

    def _obstacle(self, replica: Any, comm: Any) -> str:
        """Return why a replica exchanges by itself; empty if it need not."""
        if replica in self._hooked:
            return "it has a communication hook of its own"
        if comm is None:
            return "the ranks of its process group are not this run's"
        if any(getattr(one, "sparse", False) is True for one in replica.modules()):
            return "it has sparse gradients, which our exchange does not add"
        return ""

    def _communicator(self, ranks: list[int]) -> Any:
        """Return the communicator of a process group's ranks; None if they are not MPI's."""
        world, groups = MPI.COMM_WORLD, self._torch.distributed
        if (groups.get_rank(), groups.get_world_size()) != (world.rank, world.size):
            return None
        if ranks == [*range(world.size)]:
            return world
        return world.Create_group(world.Get_group().Incl(ranks))


class _Hook:
    """The communication hook of one replica: takes a bucket, and returns its means' future.

    The last bucket's call waits for all of them. It is made where the backward pass would
    wait anyway, and here an interrupt is heard.
    """

    def __init__(self, torch: Any, exchange: BucketExchange, names: dict[int, str]) -> None:
        self._torch, self._exchange, self._names = torch, exchange, names
        self._flying: list[tuple[HostBucket, Callable[[], None]]] = []
        self._copies = HostCopies()

    def __call__(self, bucket: Any) -> Any:
        buffer = bucket.buffer()
        if threading.current_thread() is not threading.main_thread():
            _check_threads()
        if bucket.index() == 0:
            self._flying.clear()
        future = self._future(buffer)
        host = self._on_host(bucket, buffer)
        self._flying.append((host, lambda: self._land(host, buffer, future)))
        ready = self._exchange.take(host, is_first=bucket.index() == 0, is_last=bucket.is_last())
        landed = [one for one in self._flying if any(one[0] is other for other in ready)]
        self._flying = [one for one in self._flying if one not in landed]
        for _, land in landed:
            land()
        return future

    def _future(self, buffer: Any) -> Any:
        kind = self._torch.futures.Future
        return kind() if buffer.device.type == "cpu" else kind(devices=[buffer.device])

    def _on_host(self, bucket: Any, buffer: Any) -> HostBucket:
        """Return a bucket's gradients in host memory: on a CPU its own memory, if it is summed."""
        values = buffer.detach()
        if values.is_complex():
            values = self._torch.view_as_real(values).reshape(-1)
        if str(values.dtype).removeprefix("torch.") not in _SUMMED:
            values = values.float()
        pairs = 1 + bool(buffer.is_complex())
        parameters = bucket.parameters()
        shapes = [(*one.shape, 2) if pairs == 2 else tuple(one.shape) for one in parameters]
        names = [self._names.get(id(one), f"parameter {n}") for n, one in enumerate(parameters)]
        return HostBucket(names, shapes, self._copies.of(bucket.index(), values))

    def _land(self, host: HostBucket, buffer: Any, future: Any) -> None:
        means = self._torch.from_numpy(host.flat)
        if buffer.is_complex():
            means = self._torch.view_as_complex(means.reshape(-1, 2))
        if means.data_ptr() != buffer.data_ptr():
            buffer.copy_(means)
        future.set_result(buffer)


def _check_threads() -> None:
    if MPI.Query_thread() < MPI.THREAD_SERIALIZED:
        raise InputError(
            "This MPI takes calls from the main thread alone, and PyTorch's backward pass on a "
            "GPU exchanges in another",
            f"leave {find_exchange_option()} out.",
        )
