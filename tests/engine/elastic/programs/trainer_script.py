"""A small network that Hugging Face's Trainer trains, with an average of its weights."""

from __future__ import annotations

import random
from typing import Any

import numpy
import torch
from torch.optim.swa_utils import AveragedModel
from torch.utils.data import DataLoader, DistributedSampler
from transformers import (
    Seq2SeqTrainer,
    Seq2SeqTrainingArguments,
    Trainer,
    TrainerCallback,
    TrainingArguments,
)
from transformers.trainer_utils import get_last_checkpoint


class Numbers(torch.utils.data.Dataset):
    """Examples that know their number; what is added to them at random is read with them."""

    def __init__(self, examples: int, noise: float = 0.0) -> None:
        self.x = torch.rand(examples, 4, generator=torch.Generator().manual_seed(1))
        self.noise = noise

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, number: int) -> dict[str, Any]:
        x = self.x[number]
        if self.noise:
            x = x + self.noise * (torch.rand(4) + random.random() + numpy.random.rand())
        return {"x": x, "labels": x.sum(0, keepdim=True) ** 2, "number": number}


class Masked(Numbers):
    """Examples whose labels are left out here and there."""

    def __getitem__(self, number: int) -> dict[str, Any]:
        found = super().__getitem__(number)
        return found if number % 7 > 2 else {**found, "labels": torch.tensor([-100.0])}


class Stream(torch.utils.data.IterableDataset):
    """The same examples one after another, in an order of each epoch; it knows its place."""

    def __init__(self, examples: int, noise: float = 0.0) -> None:
        self.numbers = Numbers(examples, noise)
        self.epoch = self.position = 0

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def __iter__(self) -> Any:
        draw = torch.Generator().manual_seed(self.epoch)
        order = torch.randperm(len(self.numbers), generator=draw).tolist()
        while self.position < len(order):
            self.position += 1
            yield self.numbers[order[self.position - 1]]
        self.position = 0

    def state_dict(self) -> dict[str, int]:
        return {"position": self.position}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.position = state["position"]


class Sharing(Trainer):
    """Brings a sampler that divides the data among the ranks."""

    def get_train_dataloader(self) -> Any:
        data, size = self.train_dataset, self.args.per_device_train_batch_size
        sampler = DistributedSampler(data, seed=2)
        return DataLoader(data, size, sampler=sampler, collate_fn=self.data_collator)


class Network(torch.nn.Module):
    """Tells what it is trained on."""

    def __init__(self, dropout: float) -> None:
        super().__init__()
        self.layers = torch.nn.Sequential(
            torch.nn.Linear(4, 16), torch.nn.Tanh(), torch.nn.Dropout(dropout),
            torch.nn.Linear(16, 1),
        )  # fmt: skip
        self.seen: Any = None

    def forward(self, x: Any, labels: Any, number: Any) -> dict[str, Any]:
        if self.training and self.seen is not None:
            self.seen(number.tolist())
        found = self.layers(x)
        return {"loss": (found - labels).square().mean(), "logits": found}


class Ignoring(Network):
    """Takes the number of items, and does not divide by it."""

    def forward(self, x: Any, labels: Any, number: Any, **_: Any) -> dict[str, Any]:
        return super().forward(x, labels, number)


class Dividing(Network):
    """Divides the sum of its losses by the number of items of all ranks."""

    def forward(
        self, x: Any, labels: Any, number: Any, num_items_in_batch: Any = None, **_: Any
    ) -> dict[str, Any]:
        found = super().forward(x, labels, number)
        items = len(labels) if num_items_in_batch is None else num_items_in_batch
        losses = (found["logits"] - labels).square()
        return {**found, "loss": losses[labels != -100].sum() / items}


NETWORKS = {"": Network, "ignored": Ignoring, "divided by": Dividing}


class Average(TrainerCallback):
    """Keeps a moving average of the weights, and counts steps."""

    def __init__(self, model: Any) -> None:
        self.average = AveragedModel(
            model, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.9)
        )
        self.counted = 0

    def on_step_end(self, args: Any, state: Any, control: Any, model: Any = None, **_: Any) -> None:
        self.average.update_parameters(model)
        self.counted += 1


class Kill(TrainerCallback):
    """Ends the rank where the test asks for it."""

    def __init__(self, here: Any) -> None:
        self.killed = here.killed

    def on_evaluate(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self.killed("evaluate", state.global_step)

    def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self.killed("save", state.global_step)


def train(here: Any) -> None:
    torch.manual_seed(here.seed)
    given = {
        "seed": here.seed,
        "eval_strategy": "epoch",
        "save_strategy": "no",
        "logging_steps": 1,
        **here.arguments,
    }
    sequences = "sequences" in here.ways
    arguments = (Seq2SeqTrainingArguments if sequences else TrainingArguments)(
        output_dir=str(here.place / "own"),
        per_device_train_batch_size=here.batch,
        per_device_eval_batch_size=4,
        gradient_accumulation_steps=here.accumulate,
        num_train_epochs=here.epochs,
        learning_rate=0.02,
        dataloader_num_workers=here.workers,
        report_to=[],
        use_cpu=True,
        disable_tqdm=True,
        **given,
    )
    model = NETWORKS[here.items](here.dropout)
    average = Average(model)
    trainer = (Sharing if here.divides else Seq2SeqTrainer if sequences else Trainer)(
        model=model,
        args=arguments,
        train_dataset=(Stream if here.streams else Numbers)(here.examples, here.noise),
        eval_dataset=(Masked if here.items else Numbers)(here.evaluated),
        callbacks=[average, Kill(here)],
        compute_metrics=lambda of: {
            "count": float(len(of.predictions)),
            "error": float(abs(of.predictions - of.label_ids).mean()),
        },
    )
    model.seen = lambda numbers: here.noted(trainer.state.global_step, numbers)
    (here.place / "own").mkdir(exist_ok=True)
    newest = get_last_checkpoint(arguments.output_dir) if here.own else None
    result = trainer.train(resume_from_checkpoint=newest)
    model.seen = None
    logs = trainer.state.log_history
    here.found["losses"] = {one["step"]: one["loss"] for one in logs if "loss" in one}
    here.found["evaluated"] = {one["step"]: one["eval_loss"] for one in logs if "eval_loss" in one}
    here.found["rates"] = {one["step"]: one["learning_rate"] for one in logs if "loss" in one}
    here.found["train_loss"] = result.metrics["train_loss"]
    here.found["weights"] = [float(one.double().sum()) for one in model.parameters()]
    here.found["average"] = [float(one.double().sum()) for one in average.average.parameters()]
    here.found["counted"] = average.counted
    for name in ("count", "error"):
        evaluated = {one["step"]: one[f"eval_{name}"] for one in logs if f"eval_{name}" in one}
        here.found[name] = evaluated
    here.found["last"] = [float(torch.rand(1)), trainer.evaluate()["eval_loss"]]
