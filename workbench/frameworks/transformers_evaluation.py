"""Have evaluations of Hugging Face's Trainer give the numbers that they give on the first ranks.

Each rank evaluates whole batches. On several ranks the last ones are filled up with the first
examples, which count in the loss; and a loss that is divided by the number of items is divided by
those of all ranks. So the batches that the first ranks would have are evaluated in their order,
and what is gathered is put together as there.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from typing import Any

from workbench.frameworks.torch.library_loop import replace_method

FIRST = "_workbench_first"
"""Attribute of a Trainer: how many ranks its training has the batches of."""
_DIVIDES = "_workbench_divides"


def run_evaluation(
    evaluate: Callable[..., Any], trainer: Any, loader: Any, *args: Any, **kwargs: Any
) -> Any:
    """Do a Trainer's loop over a loader, as on the ranks that its training has begun on."""
    first = vars(trainer).get(FIRST, trainer.args.world_size)
    if first == trainer.args.world_size or not _take_batches(trainer, loader, first):
        return evaluate(trainer, loader, *args, **kwargs)
    with ExitStack() as undone:
        TrainerEvaluation(trainer, _inner(loader).batch_sampler).install(undone)
        return evaluate(trainer, loader, *args, **kwargs)


def _inner(loader: Any) -> Any:
    return getattr(loader, "base_dataloader", loader)


def _take_batches(trainer: Any, loader: Any, first: int) -> bool:
    """Have a loader give the batches of the first ranks; return whether that is possible."""
    torch: Any = sys.modules["torch"]
    module: Any = sys.modules["accelerate.data_loader"]
    args, accelerator, inner = trainer.args, trainer.accelerator, _inner(loader)
    gather = getattr(trainer.gather_function, "func", trainer.gather_function)
    if (
        args.batch_eval_metrics
        or args.eval_use_gather_object
        or accelerator.split_batches
        or not accelerator.even_batches
        or gather not in (accelerator.gather, accelerator.gather_for_metrics)
        or not isinstance(loader, module.DataLoaderShard)
        or isinstance(inner.dataset, torch.utils.data.IterableDataset)
    ):
        return False
    batches = inner.batch_sampler
    if isinstance(batches, EvaluationBatches | module.BatchSamplerShard):
        batches = batches.batch_sampler
    if (
        type(batches) is not torch.utils.data.BatchSampler
        or batches.batch_size != args.eval_batch_size
        or len(batches.sampler) != len(inner.dataset)
    ):
        return False
    if not isinstance(inner.batch_sampler, EvaluationBatches):
        inner._iterator = None  # processes that stay have the sampler that was
    place = args.process_index, args.world_size
    vars(inner)["batch_sampler"] = EvaluationBatches(batches, first, *place)
    return True


class EvaluationBatches:
    """The batches that the first ranks evaluate, for any number of ranks.

    Args:
        batches: The loader's own batch sampler, which knows no ranks.
        first: The number of the first ranks.
    """

    split_batches, even_batches = False, True

    def __init__(self, batches: Any, first: int, rank: int, ranks: int) -> None:
        self.batch_sampler, self.sampler = batches, batches.sampler
        self.batch_size: int = batches.batch_size
        self.drop_last = bool(batches.drop_last)
        self.first, self.rank, self.num_processes = first, rank, ranks

    @property
    def count(self) -> int:
        """How many batches there are; each of the first ranks has as many."""
        at_once, examples = self.batch_size * self.first, len(self.sampler)
        return (examples // at_once if self.drop_last else -(-examples // at_once)) * self.first

    @property
    def rows(self) -> int:
        """How many examples they have, with those that are repeated."""
        full = self.count * self.batch_size
        return min(full, len(self.sampler)) if self.first == 1 else full

    def __len__(self) -> int:
        """Return how many batches a rank has."""
        return math.ceil(self.count / self.num_processes)

    def __iter__(self) -> Iterator[list[Any]]:
        """Give this rank's; where none is left for it, the last one, which is cut off."""
        order, size = [*self.sampler], self.batch_size
        order = [order[n % len(order)] for n in range(self.rows)]
        for number in range(self.rank, len(self) * self.num_processes, self.num_processes):
            begin = min(number, self.count - 1) * size
            yield order[begin : begin + size]


class TrainerEvaluation:
    """One evaluation of a Trainer on another number of ranks than the first one."""

    def __init__(self, trainer: Any, batches: EvaluationBatches) -> None:
        self._trainer, self._accelerator, self._batches = trainer, trainer.accelerator, batches
        self._round = -1
        self._averages = bool(trainer.args.average_tokens_across_devices)
        self._items: Any = None  # of this rank's batch
        self._divides = False
        self._is_loss = False  # whether it is what is gathered next
        self._losses: list[Any] = []  # with items, of batches that the first ranks have at once
        self._rows, self._loss_rows = batches.rows, batches.count * batches.batch_size
        if not batches.drop_last and trainer.gather_function != self._accelerator.gather:
            self._rows = self._loss_rows = len(batches.sampler)

    def install(self, undone: ExitStack) -> None:
        """Replace what the Trainer calls until ``undone`` is closed."""
        trainer, args = self._trainer, self._trainer.args
        replace_method(undone, trainer, "prediction_step", self._predict)
        replace_method(undone, trainer, "_get_num_items_in_batch", self._count)
        undone.callback(setattr, trainer, "gather_function", self._accelerator.gather_for_metrics)
        trainer.gather_function = self._gather
        # The items of this rank's batch are to be counted alone.
        undone.callback(setattr, args, "average_tokens_across_devices", self._averages)
        args.average_tokens_across_devices = False

    def _count(self, original: Callable[..., Any], *args: Any) -> Any:
        self._items = items = original(*args)
        return items if items is None else max(items, items * 0 + 1)  # none may be none to train on

    def _predict(
        self, original: Callable[..., Any], model: Any, inputs: Any, *args: Any, **kwargs: Any
    ) -> Any:
        self._round, self._items, given = self._round + 1, None, {**inputs}
        found = original(model, inputs, *args, **kwargs)
        self._is_loss = found[0] is not None
        if self._items is not None and self._averages:
            self._divides = divides_loss(self._trainer, given, self._items)
        return found

    def _gather(self, data: Any) -> Any:
        """Return what all ranks have, without what is no example of the first ranks' batches."""
        if self._is_loss:
            self._is_loss = False
            return self._gather_losses(data)
        batches = self._batches
        at_once = batches.batch_size * batches.num_processes
        left = max(0, self._rows - self._round * at_once)
        if left < at_once:  # the last batch of one rank may have fewer examples
            data = self._accelerator.pad_across_processes(data, dim=0)
        found, operations = self._accelerator.gather(data), sys.modules["accelerate.utils"]
        return operations.recursively_apply(lambda one: one[:left], found)

    def _gather_losses(self, losses: Any) -> Any:
        """Return the losses of batches that the first ranks have at once, as soon as all are known.

        Args:
            losses: The one of this rank's batch, for each example of it.
        """
        torch: Any = sys.modules["torch"]
        batches, first = self._batches, self._batches.first
        is_counted = self._averages and self._items is not None
        own = losses.new_tensor([[losses[0], self._items if is_counted else 1]], dtype=float)
        begun = self._round * batches.num_processes
        self._losses += [*self._accelerator.gather(own)[: max(0, batches.count - begun)]]
        found = losses[:0]
        while len(self._losses) >= first:
            (values, items), self._losses = (
                torch.stack(self._losses[:first]).T,
                self._losses[first:],
            )
            if is_counted:
                values = values * first
                values = values * items.clamp(min=1) / items.sum() if self._divides else values
            each = values.to(losses.dtype).repeat_interleave(batches.batch_size)
            found = torch.cat([found, each[: self._loss_rows]])
            self._loss_rows -= min(self._loss_rows, len(each))
        return found


def divides_loss(trainer: Any, given: Mapping[str, Any], items: Any) -> bool:
    """Return whether the loss of a Trainer's model is divided by the number of items it is given.

    Any model with keyword arguments is given it, and some do not read it. So it is tried once.
    """
    if _DIVIDES not in vars(trainer):
        base: Any = sys.modules["transformers.trainer"].Trainer
        is_models = trainer.compute_loss_func is None and trainer.label_smoother is None
        is_plain = is_models and type(trainer).compute_loss is base.compute_loss
        model = trainer.accelerator.unwrap_model(trainer.model)
        vars(trainer)[_DIVIDES] = not is_plain or _changes_loss(model, given, items)
    return bool(vars(trainer)[_DIVIDES])


def _changes_loss(model: Any, given: Mapping[str, Any], items: Any) -> bool:
    """Return whether another number of items changes a model's loss; true if that is not known."""
    torch: Any = sys.modules["torch"]

    before = [(one, one.training) for one in model.modules()]
    model.eval()
    try:
        with torch.no_grad(), torch.random.fork_rng():
            outputs = [model(**given, num_items_in_batch=items * n) for n in (1, 2)]
        losses = [one["loss"] if isinstance(one, dict) else one[0] for one in outputs]
        return not torch.equal(*losses)
    except Exception:  # noqa: BLE001  # a model may do anything
        return True
    finally:
        for module, training in before:
            module.training = training
