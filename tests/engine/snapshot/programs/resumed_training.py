"""Train as one attempt of a run whose snapshots are saved, for tests that resume it.

``… OPTIONS``: a JSON object; ``DEFAULTS`` has its names.
"""

from __future__ import annotations

import io
import json
import os
import random
import resource
import signal
import sys
import warnings
import zlib
from contextlib import redirect_stderr
from typing import Any

import chainer
import chainermn
import numpy as np
from chainer.training import extensions
from mpi4py import MPI
from msgspec.structs import astuple

from tests.engine.programs.world import (
    arguments,
    events_of,
    folder,
    found,
    rank,
    size,
    worlds,
    write_found,
)
from workbench.core.run.batch import WANTED_VARIABLE
from workbench.core.run.rank_protocol import (
    ExamplesVisited,
    IteratorUndivided,
    SnapshotSaved,
    TrainingResumed,
)
from workbench.core.run.run_options import BATCH_VARIABLE
from workbench.core.world.world import NODE_VARIABLE
from workbench.engine.boundary import RunStopped
from workbench.engine.reporting.run_log import RunLog
from workbench.engine.run_context import RunContext, set_current
from workbench.engine.snapshot import saved_training
from workbench.engine.snapshot.run_snapshots import RunSnapshots
from workbench.engine.timing.mpi_calls import is_revoked
from workbench.errors import WorkbenchError
from workbench.frameworks.chainer.create import create_communicator
from workbench.frameworks.chainer.framework import ChainerFramework
from workbench.frameworks.chainer.global_order import GlobalOrder
from workbench.frameworks.chainer.linear_scaling import LinearScaling

DEFAULTS: dict[str, Any] = {
    "folder": "",  # of the snapshots; none are saved without
    "attempt": 1,
    "resume": False,
    "stop": None,  # the boundary at which the run stops
    "until": [[12, "iteration"]],  # of each training
    "every": 3,  # iterations between snapshots
    "fail": None,  # the iteration at which the training fails
    "kill": None,  # [rank, iteration] at which it is killed
    "ask": None,  # the iteration at which a snapshot is asked for
    "examples": 72,
    "batch": 4,
    "iterator": "serial",
    "shuffle": True,
    "transform": False,
    "scatter": "seeded",  # or "random", "none", "each": every rank has all; "split": of a part
    "optimizer": "adam",
    "communicator": "naive",
    "compress": None,
    "double": False,
    "normalize": False,
    "early": False,
    "draws": False,
    "units": 3,
    "nodes": False,  # whether each rank is a node of its own
    "limit": 0,  # bytes of the longest file that can be written
    "revoke": False,  # whether rank 1 fails at iteration 5 and frees the others
    "checkpoints": "",  # the folder of ChainerMN's checkpointer
    "evaluates": False,
    "seed": 0,
    "batches": "",  # the run's option
    "wanted": 0,  # the ranks that were asked for, if the first ones are fewer
    "divides": False,  # whether the code divides the batch by the number of ranks
    "overlap": False,  # whether gradients are sent during the backward pass
    "clip": False,
    "recurrent": False,  # whether the model keeps a state from step to step
    "own_draws": False,  # whether the data set draws from a generator of the script's own
    "updater": "standard",
    "scaled": False,  # whether the code scales the rate with the number of ranks
    "shift": "",  # an extension that sets the rate
    "alone": False,  # whether each rank trains without the others
}
options = {**DEFAULTS, **json.loads(arguments[0])}
BATCH = options["batch"] // size if options["divides"] else options["batch"]
warnings.simplefilter("ignore")
ChainerFramework().install()
if options["nodes"]:
    os.environ[NODE_VARIABLE] = f"node-{rank}"
if options["batches"]:
    os.environ[BATCH_VARIABLE] = options["batches"]
else:
    os.environ.pop(BATCH_VARIABLE, None)
os.environ[WANTED_VARIABLE] = str(options["wanted"])
world = worlds.offer(0)
run = RunContext(RunLog("260101-000000-arun", rank, folder / f"rank-{rank}" / "log"))
if options["folder"]:
    run.snapshots = RunSnapshots(
        run.log,
        options["folder"].format(rank=rank),
        run="260101-000000-arun",
        attempt=options["attempt"],
        generation=1,
        resumes=options["resume"],
    )
vars(saved_training)["interval"] = lambda *_: options["every"]
if options["ask"]:
    vars(saved_training)["LISTEN_SECONDS"] = 0.0  # at each iteration
if options["stop"] is not None:
    run.boundaries.stop_at(options["stop"])
visited: list[list[Any]] = []
losses: dict[str, float] = {}
rates: dict[int, float] = {}


def communicator() -> Any:
    if options["compress"] or options["double"] or options["overlap"]:
        overlap = options["overlap"] or None
        return create_communicator("mpi", world, compress=options["compress"], overlap=overlap)
    return chainermn.create_communicator(options["communicator"], world)


class Model(chainer.Chain):
    """Two layers, with what a snapshot has to keep besides parameters."""

    def __init__(self) -> None:
        super().__init__()
        with self.init_scope():
            self.first = chainer.links.Linear(2, options["units"])
            if options["normalize"]:
                self.norm = chainer.links.BatchNormalization(options["units"])
            self.middle = chainer.links.Linear(options["units"], options["units"])
            if options["recurrent"]:
                self.lstm = chainer.links.LSTM(options["units"], options["units"])
                self.gru = chainer.links.StatefulGRU(options["units"], options["units"])
            self.last = chainer.links.Linear(options["units"], 1)

    def forward(self, x: Any, y: Any) -> Any:
        hidden = chainer.functions.tanh(self.first(x))
        if options["normalize"]:
            hidden = self.norm(hidden)
        if options["draws"]:
            hidden = chainer.functions.dropout(hidden, 0.2)
            hidden += float(random.random())
        hidden = chainer.functions.tanh(self.middle(hidden))
        if options["recurrent"]:
            hidden = self.gru(self.lstm(hidden))
        loss = chainer.functions.mean_squared_error(self.last(hidden), y)
        chainer.report({"loss": loss}, self)
        return loss


def examples() -> Any:
    numbers = np.random.RandomState(1)
    amount = options["examples"]
    x = numbers.normal(0, 1, (amount, 2)).astype(np.float32)
    y = x.sum(axis=1, keepdims=True) ** 2
    return chainer.datasets.TupleDataset(x, y, np.arange(amount))


def data_for(comm: Any) -> Any:
    if options["scatter"] == "none":
        part = chainer.datasets.TupleDataset(
            *(one[rank::size] for one in zip(*examples(), strict=True))
        )
    elif options["scatter"] == "each":
        part = chainer.datasets.SubDataset(examples(), 0, options["examples"])
    else:
        seed = 5 if options["scatter"] == "seeded" else None
        whole = examples()
        if options["scatter"] == "split":
            whole, _ = chainer.datasets.split_dataset(whole, options["examples"] // 2)
        part = chainermn.scatter_dataset(whole, comm, shuffle=True, seed=seed)
    if options["transform"]:
        part = chainer.datasets.TransformDataset(part, lambda one: one)
    if options["own_draws"]:
        generator, other = np.random.default_rng(100 + rank), random.Random(rank)

        def shaken(one: Any) -> Any:
            x, y, index = one
            return x + np.float32(generator.normal() + other.random()), y, index

        part = chainer.datasets.TransformDataset(part, shaken)
    return part


def iterator_over(data: Any) -> Any:
    kinds = {
        "serial": chainer.iterators.SerialIterator,
        "multithread": chainer.iterators.MultithreadIterator,
        "multiprocess": chainer.iterators.MultiprocessIterator,
    }
    more = {"n_processes": 1} if options["iterator"] == "multiprocess" else {}
    if options["iterator"] == "ahead":
        return kinds["multiprocess"](data, BATCH, n_processes=1, n_prefetch=5)
    if options["iterator"] == "own sampler":
        return kinds["serial"](data, BATCH, order_sampler=lambda order, position: order[::-1])
    if options["iterator"] == "own":
        return OwnIterator(data, BATCH)
    if options["iterator"] == "sequential":
        return SequentialIterator(data, BATCH)
    more = {"n_threads": 2} if options["iterator"] == "multithread" else more
    return kinds[options["iterator"]](data, BATCH, shuffle=options["shuffle"], **more)


class OwnIterator(chainer.dataset.Iterator):
    """Gives examples in their order forever."""

    is_new_epoch = False

    def __init__(self, data: Any, batch: int) -> None:
        self.dataset, self.batch_size, self.place, self.epoch = data, batch, 0, 0

    def __next__(self) -> Any:
        self.place += self.batch_size
        return [self.dataset[n % len(self.dataset)] for n in range(self.place - BATCH, self.place)]


class SequentialIterator(OwnIterator):
    """Counts batches, and says from its part's length how many epochs they are."""

    def __next__(self) -> Any:
        batch = super().__next__()
        self.epoch = int(self.epoch_detail)
        return batch

    @property
    def epoch_detail(self) -> float:
        return float(self.place / len(self.dataset))

    def serialize(self, serializer: Any) -> None:
        self.place = serializer("place", self.place)


class OwnUpdater(chainer.training.StandardUpdater):
    """Computes the gradients of halves of a batch before it updates."""

    def update_core(self) -> None:
        x, y = self.converter(self.get_iterator("main").next(), self.device)
        optimizer = self.get_optimizer("main")
        optimizer.target.cleargrads()
        for half in (slice(None, len(x) // 2), slice(len(x) // 2, None)):
            loss = optimizer.target(x[half], y[half])
            (loss * (len(x[half]) / len(x))).backward()
        optimizer.update()


class RecurrentUpdater(chainer.training.StandardUpdater):
    """Forgets the steps before, but for the state that they left."""

    def update_core(self) -> None:
        x, y = self.converter(self.get_iterator("main").next(), self.device)
        optimizer = self.get_optimizer("main")
        optimizer.target.cleargrads()
        loss = optimizer.target(x, y)
        loss.backward()
        loss.unchain_backward()
        optimizer.update()


def optimizer_for(comm: Any, model: Any) -> Any:
    actual = (
        chainer.optimizers.Adam(0.02)
        if options["optimizer"] == "adam"
        else chainer.optimizers.MomentumSGD(0.02 * size if options["scaled"] else 0.05)
    )
    if comm is None:
        return actual.setup(model)
    many = chainermn.create_multi_node_optimizer(actual, comm, double_buffering=options["double"])
    many.setup(model)
    if options["clip"]:
        many.add_hook(chainer.optimizer_hooks.GradientClipping(0.5))
    return many


def each(trainer: Any) -> None:
    """Record, and disturb the training where it was asked for."""
    iteration = trainer.updater.iteration
    if options["kill"]:  # the ranks have no other way to leave it
        part = folder / f"visited-{rank}.part"  # the kill may come within the writing
        part.write_text(json.dumps(visited))
        part.rename(folder / f"visited-{rank}.json")
    losses[f"{len(found['iterations'])} {iteration}"] = float(
        trainer.observation["main/loss"].array
    )
    optimizer = trainer.updater.get_optimizer("main")
    if options["optimizer"] == "momentum":
        rates[iteration] = float(optimizer.lr)
    if iteration == 4 and options["optimizer"] == "momentum" and not options["shift"]:
        optimizer.lr *= 0.5  # as a user's extension may
    if run.snapshots is not None:
        run.snapshots.writer.wait()  # so that the next one is not left out
    if iteration == options["ask"] and run.snapshots is not None:
        run.snapshots.is_asked = rank == 0
    if options["revoke"] and rank == 1 and iteration == 5:
        worlds.revoke()
        raise ValueError("rank 1 fails here")
    if iteration == options["fail"]:
        raise ValueError("the training fails here")
    if options["kill"] == [rank, iteration]:
        (folder / "killed").touch()
        os.kill(os.getpid(), signal.SIGKILL)


def train(number: int, until: Any) -> None:
    chainer.global_config.cudnn_deterministic = True
    np.random.seed(1000 * options["seed"] + 10 * number + rank)
    random.seed(rank)
    comm = None if options["alone"] else communicator()
    model = Model()
    iterator = iterator_over(data_for(comm) if comm else examples())

    def convert(batch: Any, device: Any = None) -> Any:
        x, y, index = chainer.dataset.concat_examples(batch)
        is_shared = isinstance(getattr(iterator, "order_sampler", None), GlobalOrder)
        later = iterator.current_position if iterator.is_new_epoch and not is_shared else 0
        for epoch, numbers in ((-1, index[: len(index) - later]), (0, index[len(index) - later :])):
            if len(numbers):
                visited.append([iterator.epoch + epoch * iterator.is_new_epoch, numbers.tolist()])
        return x, y

    optimizer = optimizer_for(comm, model)
    kind = OwnUpdater if options["updater"] == "own" else chainer.training.StandardUpdater
    kind = RecurrentUpdater if options["recurrent"] else kind
    names = ("again", "main") if options["updater"] == "two names" else ("main",)
    updater = kind(
        dict.fromkeys(names, iterator), dict.fromkeys(names, optimizer), converter=convert
    )
    stop: Any = tuple(until)
    if options["early"]:
        stop = chainer.training.triggers.EarlyStoppingTrigger(
            monitor="main/loss", check_trigger=(2, "iteration"), max_trigger=stop, patience=2
        )
    trainer = chainer.training.Trainer(updater, stop, out=str(folder / "out"))
    trainer.extend(each, name="each", trigger=(1, "iteration"))
    if options["shift"] == "exponential":
        trainer.extend(extensions.ExponentialShift("lr", 0.9), trigger=(2, "iteration"))
    if options["shift"] == "warmup":
        trainer.extend(extensions.WarmupShift("lr", 0.01, 4, 0.05), trigger=(1, "iteration"))
    if options["shift"] == "scaling":
        trainer.extend(LinearScaling(comm, iterations=6))
    if rank == 0:
        log = extensions.LogReport(trigger=(2, "iteration"))
        trainer.extend(log)
    if options["evaluates"]:
        held = chainer.datasets.SubDataset(examples(), 0, 24)
        own = chainermn.scatter_dataset(held, comm)
        ahead = chainer.iterators.SerialIterator(own, 4, repeat=False, shuffle=False)
        alone = extensions.Evaluator(
            ahead, model, converter=lambda batch, _: chainer.dataset.concat_examples(batch)[:2]
        )
        evaluator = chainermn.create_multi_node_evaluator(alone, comm)
        trainer.extend(evaluator, name="validation", trigger=(1, "epoch"))
    if options["checkpoints"]:
        keeper = chainermn.create_multi_node_checkpointer("kept", comm, path=options["checkpoints"])
        keeper.finalize = lambda: None  # as where its process is killed
        keeper.maybe_load(trainer, optimizer)
        trainer.extend(keeper, trigger=(2, "iteration"))
    try:
        trainer.run(show_loop_exception_msg=False)
    finally:
        found["validation"] = float(trainer.observation.get("validation/main/loss", 0.0))
        found["iterations"].append(trainer.updater.iteration)
        found["log"] = [one["iteration"] for one in log.log] if rank == 0 else []
        found["lr"] = getattr(optimizer, "lr", 0.0) if options["optimizer"] == "momentum" else 0.0
        found["parameters"] = [
            one for _, p in sorted(model.namedparams()) for one in p.array.ravel().tolist()
        ]
        with chainer.using_config("train", False):
            x, y, _ = chainer.dataset.concat_examples(examples()[:])
            if options["recurrent"]:
                model.lstm.reset_state()
                model.gru.reset_state()
            found["fit"] = float(model(x, y).array)  # the mean loss over all examples
        found["batch"] = iterator.batch_size
        found["weights"] = [zlib.crc32(p.array) for _, p in sorted(model.namedparams())]
        found["persistent"] = model.norm.avg_mean.tolist() if options["normalize"] else []
    found["after"] = [np.random.rand(), random.random()]


found |= {"iterations": [], "ended": "finished"}
set_current(run)
errors = io.StringIO()
limits = resource.getrlimit(resource.RLIMIT_FSIZE)
if options["limit"]:
    resource.setrlimit(resource.RLIMIT_FSIZE, (options["limit"], limits[1]))
try:
    with redirect_stderr(errors):
        for number, until in enumerate(options["until"], 1):
            train(number, until)
except RunStopped:
    found["ended"] = "stopped"
except (ValueError, WorkbenchError) as error:
    found["ended"] = str(error)
except MPI.Exception as error:
    found["ended"] = "revoked" if is_revoked(error) else str(error)
finally:
    set_current(None)
    if run.snapshots is not None:
        run.snapshots.close()
    resource.setrlimit(resource.RLIMIT_FSIZE, limits)
events = events_of(run.log)
found["snapshots"] = [one.iteration for one in events if isinstance(one, SnapshotSaved)]
found["resumed"] = [astuple(one) for one in events if isinstance(one, TrainingResumed)]
found["counted"] = [astuple(one) for one in events if isinstance(one, ExamplesVisited)]
found["undivided"] = [one.kind for one in events if isinstance(one, IteratorUndivided)]
found["said"] = errors.getvalue() + "".join(getattr(one, "text", "") for one in run.log._chunks)
found["visited"], found["losses"], found["rates"] = visited, losses, rates
found["boundaries"] = run.boundaries.count
if options["revoke"]:
    worlds.recover()
write_found()
sys.stdout.flush()
