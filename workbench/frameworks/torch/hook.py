"""Have PyTorch's loops report losses, iterations and step times, and stop at boundaries.

PyTorch has no trainer, so the parts of a loop are watched: ``backward``, the optimizers' steps,
``DataLoader`` and ``GradScaler``. Outside of a run, and in threads beside the main one, nothing is
done.
"""

from __future__ import annotations

import functools
import sys
import threading
import weakref
from collections.abc import Callable, Iterable, Sequence
from types import FrameType
from typing import Any

from workbench.engine.cell_effects import announce_file
from workbench.engine.import_hook import when_imported
from workbench.engine.run_context import RunContext, current
from workbench.engine.timing.mpi_calls import watch
from workbench.engine.training_loop import Pass, TrainingLoop, now
from workbench.engine.watched_loop import LoopWatch, WatchedLoop, elastic_line, name_of
from workbench.frameworks.torch.process_groups import wrap_groups, wrap_stores

MESSAGES = ("send", "recv")
COLLECTIVES = (
    "all_gather",
    "all_gather_into_tensor",
    "all_gather_object",
    "all_reduce",
    "all_to_all",
    "all_to_all_single",
    "barrier",
    "broadcast",
    "broadcast_object_list",
    "gather",
    "reduce",
    "reduce_scatter",
    "reduce_scatter_tensor",
    "scatter",
)
_MAIN = threading.main_thread().ident

UNSCALED = "_workbench_unscaled"
PASS = "_workbench_pass"


def wrap_distributed(module: Any) -> None:
    """Watch process groups, what their stores listen on, and the calls that wait for ranks."""
    wrap_groups(module)
    wrap_stores()
    wrap_calls(module)


def wrap_torch(torch: Any) -> None:
    """Watch PyTorch's training loops."""
    try:
        if not hasattr(torch.autograd.backward, "__wrapped__"):
            _wrap_parts(torch)
    except AttributeError as error:  # another release of PyTorch, or another module of its name
        version = getattr(torch, "__version__", "(of no known version)")
        print(
            f"workbench: loops of torch {version} get no curves ({error}); "
            "report values with workbench.report.",
            file=sys.stderr,
        )


def _wrap_parts(torch: Any) -> None:
    hooks = _Hooks(torch)
    # PyTorch removes this module's name from its package.
    optimizers: Any = sys.modules.get("torch.optim.optimizer")
    optimizers.register_optimizer_step_pre_hook(hooks.before_step)
    optimizers.register_optimizer_step_post_hook(hooks.after_step)
    loader = torch.utils.data.DataLoader
    batches = torch.utils.data.dataloader._BaseDataLoaderIter
    scaler = torch.amp.GradScaler
    replica = torch.nn.parallel.DistributedDataParallel
    codes = []
    for owner, name, around in (
        (torch.autograd, "backward", hooks.backward),
        (torch.optim.Optimizer, "__init__", hooks.optimizing),
        (torch.optim.Optimizer, "zero_grad", hooks.clearing(_parameters)),
        (torch.nn.Module, "zero_grad", hooks.clearing(torch.nn.Module.parameters)),
        (loader, "__iter__", hooks.wrap_iter),
        (batches, "__next__", hooks.wrap_next),
        (scaler, "scale", hooks.wrap_scale),
        (scaler, "step", hooks.scaler_step),
        (replica, "__init__", hooks.wrap_replica),
        (replica, "register_comm_hook", hooks.wrap_hook),
        (replica, "_register_builtin_comm_hook", hooks.wrap_hook),
    ):
        wrapper: Any = around(getattr(owner, name))
        setattr(owner, name, wrapper)
        codes.append(wrapper.__code__)
    # Its compiler then calls our functions as they are, as it calls PyTorch's own.
    when_imported("torch._dynamo.eval_frame", lambda compiler: [*map(compiler.skip_code, codes)])
    when_imported("torch.distributed.fsdp", _refuse_options_for_shards)
    when_imported("torch.distributed.pipelining", _refuse_options_for_stages)


def _refuse_options_for_shards(module: Any) -> None:
    kind = module.FullyShardedDataParallel
    kind.__init__ = _wrap_refusal(kind.__init__, "FullyShardedDataParallel")
    module.fully_shard = _wrap_refusal(module.fully_shard, "fully_shard")


def _refuse_options_for_stages(module: Any) -> None:
    kind = module.PipelineStage
    kind.__init__ = _wrap_refusal(kind.__init__, "a pipeline's stages")


def _wrap_refusal(original: Callable[..., Any], what: str) -> Callable[..., Any]:
    """Return ``original``, refused in a run with an option of our exchange."""

    @functools.wraps(original)
    def make(*args: Any, **kwargs: Any) -> Any:
        if current() is not None:
            from workbench.frameworks.torch.replicas import refuse_options

            refuse_options(what)
        return original(*args, **kwargs)

    return make


def announce_files(serialization: Any) -> None:
    """Make ``torch.save`` say which file it writes, since C++ opens that without an event."""
    writer = getattr(serialization, "_open_zipfile_writer_file", None)
    if writer is not None and not hasattr(writer.__init__, "__wrapped__"):  # as in this release
        writer.__init__ = announce_file(writer.__init__)


class _Watched(WatchedLoop):
    """The loop of one run, and its replicas."""

    def __init__(self, run: RunContext, torch: Any) -> None:
        # What exchanges is not needed before there is a loop.
        from workbench.engine.exchange.exchange_options import exchange_options
        from workbench.frameworks.torch.replicas import Replicas

        self.replicas = Replicas(torch, exchange_options())
        super().__init__(run, functools.partial(_numbers, torch), self.replicas)
        self.has_optimizer = False
        self.loader: Callable[[], Any] = lambda: None  # the one that gave the last batches
        self.stepping: FrameType | None = None  # PyTorch's frame around the outermost step


class _ByHand:
    """Stands for the optimizer of a loop that has none."""


class _Hooks:
    """The functions that are put around PyTorch's own."""

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        self._is_compiling = torch.compiler.is_dynamo_compiling
        self._optimizers = weakref.WeakSet[Any]()
        self._by_hand = _ByHand()
        self._loops = LoopWatch(functools.partial(_Watched, torch=torch))

    def watched(self) -> _Watched | None:
        """Return the present run's loop; None outside of a run, and in other threads."""
        if self._is_compiling():  # the compiler traces what it is shown, and fails at our state
            return None
        return self._loops.present()

    def backward(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Return ``backward`` which also notes the losses that it is called on."""

        @functools.wraps(original)
        def backward(tensors: Any, grad_tensors: Any = None, *args: Any, **kwargs: Any) -> Any:
            here = self.watched()
            if here is not None:
                here.replicas.before_backward()
            # With a gradient it is a part of another backward pass, or starts from no loss.
            if here is None or grad_tensors is not None:
                return original(tensors, grad_tensors, *args, **kwargs)
            here.do(here.loop.backward)
            here.cleared(self._without_gradients)
            before = None if here.has_optimizer else self._gradients()
            result = original(tensors, grad_tensors, *args, **kwargs)
            here.do(self._note_loss, here.loop, tensors)
            if before is not None:
                # An optimizer that an earlier cell made steps later.
                here.has_optimizer |= self._gradients() != before
                if not here.has_optimizer:  # the program changes the weights itself
                    here.ended_step(self._by_hand, lambda _: "", lambda _: None)
            return result

        return backward

    def optimizing(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Return ``Optimizer.__init__`` which also notes that there is one."""

        @functools.wraps(original)
        def initialize(optimizer: Any, *args: Any, **kwargs: Any) -> None:
            original(optimizer, *args, **kwargs)
            self._optimizers.add(optimizer)
            if (here := self.watched()) is not None:
                here.has_optimizer = True

        return initialize

    def clearing(
        self, parameters: Callable[[Any], Iterable[Any]]
    ) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Return what puts a note around the ``zero_grad`` of owners of ``parameters``."""

        def around(original: Callable[..., Any]) -> Callable[..., Any]:
            @functools.wraps(original)
            def zero_grad(owner: Any, *args: Any, **kwargs: Any) -> Any:
                if (here := self.watched()) is not None:
                    here.cleared(lambda: parameters(owner))
                return original(owner, *args, **kwargs)

            return zero_grad

        return around

    def before_step(self, *_: Any) -> None:
        """Note that an optimizer's step begins."""
        if (here := self.watched()) is not None:
            here.has_optimizer = True
            frame = sys._getframe(1)
            if not _is_called_by(frame, here.stepping):
                here.stepping = frame
                here.do(here.loop.begin_step)

    def after_step(self, optimizer: Any, *_: Any) -> None:
        """Report an optimizer's step; the run may stop here."""
        # The step of an optimizer inside another's is a part of that, as Horovod's has one.
        if (here := self.watched()) is not None and here.stepping is sys._getframe(1):
            self._end_step(here, optimizer)

    def _end_step(self, here: _Watched, optimizer: Any) -> None:
        here.stepping = None
        if not here.loop.steps and not here.run.in_loop and here.run.snapshots is not None:
            here.do(self._offer, here, optimizer)
        here.ended_step(
            optimizer, name_of, functools.partial(_rate, self._torch), parameters=_parameters
        )

    def _offer(self, here: _Watched, optimizer: Any) -> None:
        """Note the line that would save a loop which is not saved."""
        own = {id(one) for one in _parameters(optimizer)}

        def count(value: Any) -> int:
            is_model = isinstance(value, self._torch.nn.Module)
            return len(own.intersection(map(id, value.parameters()))) if is_model else 0

        if (loader := here.loader()) is not None:
            here.loop.offer = elastic_line(optimizer, loader, count)

    def wrap_iter(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Return ``DataLoader.__iter__`` whose iterator knows where its batches come from."""

        @functools.wraps(original)
        def iterate(loader: Any) -> Any:
            batches = original(loader)
            if (here := self.watched()) is not None:
                here.do(setattr, batches, PASS, self._pass(loader))
                here.loader = weakref.ref(loader)
            return batches

        return iterate

    def wrap_next(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Return the ``__next__`` of a loader's iterator, timed."""

        @functools.wraps(original)
        def get(batches: Any) -> Any:
            if (here := self.watched()) is None or (given := vars(batches).get(PASS)) is None:
                return original(batches)
            asked = now()
            batch = original(batches)
            here.do(here.loop.fetched, given, asked)
            return batch

        return get

    def wrap_scale(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Return ``GradScaler.scale`` whose result knows the loss before."""

        @functools.wraps(original)
        def scale(scaler: Any, outputs: Any) -> Any:
            result = original(scaler, outputs)
            if result is not outputs and (here := self.watched()) is not None:
                here.do(self._note_unscaled, result, outputs)
            return result

        return scale

    def scaler_step(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Return ``GradScaler.step`` which counts also where the optimizer's step is skipped.

        Otherwise ranks that scale each by themselves would count different iterations.
        """

        @functools.wraps(original)
        def step(scaler: Any, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
            here = self.watched()
            before = here.loop.steps if here else 0
            result = original(scaler, optimizer, *args, **kwargs)
            if here is not None and here.loop.steps == before:
                self._end_step(here, optimizer)
            return result

        return step

    def wrap_replica(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Return ``DistributedDataParallel.__init__`` which also makes the replica known."""

        @functools.wraps(original)
        def initialize(replica: Any, *args: Any, **kwargs: Any) -> None:
            original(replica, *args, **kwargs)
            if (here := self.watched()) is not None:
                here.do(here.replicas.add, replica)

        return initialize

    def wrap_hook(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Return a replica's registration of a hook which also makes it known."""

        @functools.wraps(original)
        def register(replica: Any, *args: Any, **kwargs: Any) -> Any:
            if (here := self.watched()) is not None:
                here.do(here.replicas.note_hook, replica)
            return original(replica, *args, **kwargs)

        return register

    def _without_gradients(self) -> list[Any]:
        """Return the parameters of the optimizers of whose parameters none has a gradient."""
        found = map(_parameters, [*self._optimizers])
        return [p for own in found if all(one.grad is None for one in own) for p in own]

    def _gradients(self) -> list[tuple[int, int]]:
        """Identify the gradients, as they are, of the parameters of optimizers made before."""
        return [
            (id(p.grad), p.grad._version)
            for optimizer in self._optimizers
            for p in _parameters(optimizer)
            if p.grad is not None
        ]

    def _note_loss(self, loop: TrainingLoop, tensors: Any) -> None:
        is_one = isinstance(tensors, self._torch.Tensor)
        for loss in (tensors,) if is_one else tensors:
            value = getattr(loss, UNSCALED, loss)
            number = _scalar(self._torch, value) if value.numel() == 1 else None
            if number is not None:
                loop.add_loss(number)

    def _note_unscaled(self, result: Any, outputs: Any) -> None:
        if isinstance(result, self._torch.Tensor):
            setattr(result, UNSCALED, outputs.detach())

    def _pass(self, loader: Any) -> Pass:
        # An iterable dataset takes the question for its length as a promise of it.
        is_sized = not isinstance(loader.dataset, self._torch.utils.data.IterableDataset)
        size = loader.batch_size
        return Pass(
            id(loader.dataset),
            functools.partial(_length, loader) if is_sized else int,
            size if isinstance(size, int) else 0,
            epoch=_epoch(loader.sampler),
        )


def _is_called_by(frame: FrameType | None, outer: FrameType | None) -> bool:
    while outer is not None and (frame := frame.f_back if frame else None) is not None:
        if frame is outer:
            return True
    return False


def _epoch(sampler: Any) -> int:
    """Return the epoch that was set by ``set_epoch``; 0 for a sampler without one."""
    epoch = getattr(sampler, "epoch", 0)
    return epoch if isinstance(epoch, int) and epoch > 0 else 0


def _length(loader: Any) -> int:
    try:
        return len(loader)
    except TypeError:  # a sampler that does not know it
        return 0


def _scalar(torch: Any, value: Any) -> Any:
    """Return a tensor's number, or a copy of it where reading it would wait for its device."""
    if value.device.type == "cpu":
        return value.item()
    if value.is_cuda and torch.cuda.is_current_stream_capturing():
        return None  # what is captured has no value yet
    return value.detach().reshape(()).float().clone()


def _numbers(torch: Any, values: Sequence[Any]) -> list[float]:
    """Return the numbers of scalars on devices, waiting once for each device."""
    found = [0.0] * len(values)
    for device in {value.device for value in values}:
        places = [n for n, value in enumerate(values) if value.device == device]
        numbers = torch.stack([values[n] for n in places]).tolist()
        for place, number in zip(places, numbers, strict=True):
            found[place] = number
    return found


def _parameters(optimizer: Any) -> list[Any]:
    return [one for group in optimizer.param_groups for one in group["params"]]


def _rate(torch: Any, optimizer: Any) -> Any:
    rate = optimizer.param_groups[0].get("lr")
    return _scalar(torch, rate) if isinstance(rate, torch.Tensor) else rate


def wrap_calls(module: Any) -> None:
    """Time the calls of PyTorch's module of collective calls."""
    package = sys.modules.get("torch.distributed")
    for name in (*MESSAGES, *COLLECTIVES):
        original = getattr(module, name, None)
        if original is None or hasattr(original, "_workbench"):
            continue
        timed = _time_call(original, name, passes=name in MESSAGES)
        setattr(module, name, timed)
        if package is not None and getattr(package, name, None) is original:
            setattr(package, name, timed)


def wrap_pipeline(module: Any) -> None:
    """Time a pipeline's messages."""
    name = "_wait_batch_p2p"
    original = getattr(module, name, None)
    if original is not None and not hasattr(original, "_workbench"):
        setattr(module, name, _time_call(original, "a pipeline's messages", passes=True))


def _time_call(original: Callable[..., Any], name: str, *, passes: bool) -> Callable[..., Any]:
    """Return a call that is timed; one inside another is a part of that.

    Args:
        passes: Whether it is a message from one rank to another.
    """
    ident = threading.get_ident
    torch: Any = sys.modules["torch"]

    @functools.wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        # PyTorch's compiler looks for its own functions, and finds them behind this question.
        if torch.compiler.is_dynamo_compiling():
            return original(*args, **kwargs)
        if ident() != _MAIN or watch.call or current() is None:
            return original(*args, **kwargs)
        watch.enter(name)
        try:
            return original(*args, **kwargs)
        finally:
            seconds = watch.leave()
            if passes:
                watch.passed += seconds

    vars(call)["_workbench"] = True
    return call
