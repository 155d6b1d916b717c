"""Train by an unmodified `transformers.Trainer` for ``seconds``, as the source of a cell.

Writes a line for each step to ``target`` in the end, as ``paired_steps.py`` does. Model and
momentum have 100 MB.
"""

from __future__ import annotations

import json
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from transformers import Trainer, TrainerCallback, TrainingArguments

UNITS = 3_500  # 12.3 million numbers of 4 bytes, and as many of momentum
target, seconds = globals()["target"], globals()["seconds"]
lines: list[list[float]] = []


class Network(torch.nn.Module):
    """One layer."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(UNITS, UNITS)

    def forward(self, x: Any, labels: Any) -> dict[str, Any]:
        """Return the loss."""
        return {"loss": (self.layer(x).mean(1) - labels).square().mean()}


class Numbers(torch.utils.data.Dataset):
    """Endless enough."""

    def __len__(self) -> int:
        return 1_000_000

    def __getitem__(self, number: int) -> dict[str, Any]:
        return {"x": torch.full((UNITS,), number % 7 / 7), "labels": torch.tensor(1.0)}


class Clock(TrainerCallback):
    """Notes what each step takes."""

    def __init__(self) -> None:
        self.begun = self.wall = time.perf_counter()
        self.processor = time.process_time()

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        wall, processor = time.perf_counter(), time.process_time()
        lines.append([1, wall - self.wall, processor - self.processor])
        self.wall, self.processor = wall, processor
        control.should_training_stop = wall - self.begun > seconds


torch.set_num_threads(1)
model = Network()
with tempfile.TemporaryDirectory() as folder:
    options = TrainingArguments(
        folder, max_steps=1_000_000, per_device_train_batch_size=4, use_cpu=True, report_to=[],
        save_strategy="no", logging_strategy="no", disable_tqdm=True,
    )  # fmt: skip
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6, momentum=0.9)
    schedule = torch.optim.lr_scheduler.ConstantLR(optimizer, 1.0)
    Trainer(
        model, options, train_dataset=Numbers(), callbacks=[Clock()],
        optimizers=(optimizer, schedule),
    ).train()  # fmt: skip
Path(target).write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
