"""Train a small network on handwritten digits by Hugging Face's Trainer, as a user would write it.

Beside that, each rank notes the examples of its steps, lingers as the test says, and is killed once
where the test asks for it: ``kill`` has a rank, what it does, and the step.
"""

from __future__ import annotations

import json
import os
import signal
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy
import torch
from sklearn.datasets import load_digits
from transformers import Trainer, TrainerCallback, TrainingArguments

record, seed, epochs = Path(globals()["record"]), globals()["seed"], globals()["epochs"]
EXAMPLES, BATCH = 960, 64  # of all ranks, where the first ones are two
torch.set_num_threads(1)
torch.manual_seed(seed)
images, labels = load_digits(return_X_y=True)
order = numpy.random.RandomState(seed).permutation(len(images))
x, y = torch.from_numpy((images[order] / 16).astype("f")), torch.from_numpy(labels[order])
rows = [{"x": x[n], "labels": y[n], "number": n} for n in range(len(x))]


def kill(doing: str) -> None:
    """End this rank at once if it is to be killed while it does this in this step."""
    asked = json.loads(globals().get("kill_at", "null"))
    if asked == [arguments.process_index, doing, trainer.state.global_step]:
        with suppress(FileExistsError):
            (record / "killed").touch(exist_ok=False)
            os.kill(os.getpid(), signal.SIGKILL)


class Network(torch.nn.Module):
    """A small network, which knows when it is trained."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.Sequential(
            torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10)
        )

    def forward(self, x: Any, labels: Any, number: Any) -> dict[str, Any]:
        if self.training:
            step = trainer.state.global_step
            epoch = step * BATCH // EXAMPLES
            print(step, *(f"{epoch}:{n}" for n in number.tolist()), file=written, flush=True)
            kill("train")
        else:
            kill("evaluate")
        found = self.layers(x)
        return {"loss": torch.nn.functional.cross_entropy(found, labels), "logits": found}


class Mortal(Trainer):
    """Is killed with half of a checkpoint written, if the test asks for it."""

    def _save_optimizer_and_scheduler(self, folder: Any) -> None:
        kill("save")
        super()._save_optimizer_and_scheduler(folder)


class Lingering(TrainerCallback):
    """Has each step take as long as the test says."""

    def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        kill("on_save")

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        began = time.monotonic()
        with suppress(FileNotFoundError):
            while time.monotonic() - began < float((record / "pause").read_text()):
                time.sleep(0.05)


arguments = TrainingArguments(
    output_dir=str(record / "own"),
    per_device_train_batch_size=BATCH // 2,
    per_device_eval_batch_size=128,
    num_train_epochs=epochs,
    learning_rate=0.01,
    seed=seed,
    eval_strategy="epoch",
    logging_steps=1,
    report_to=[],
    use_cpu=True,
    disable_tqdm=True,
    **json.loads(globals().get("further", '{"save_strategy": "no"}')),
)
name = f"{os.environ['WORKBENCH_GENERATION']}-{arguments.process_index}.txt"
written = (record / name).open("a", encoding="utf-8")
trainer = Mortal(
    model=Network(),
    args=arguments,
    train_dataset=rows[:EXAMPLES],
    eval_dataset=rows[EXAMPLES:],
    callbacks=[Lingering()],
    compute_metrics=lambda of: {
        "accuracy": float((of.predictions.argmax(1) == of.label_ids).mean())
    },
)
trainer.train()
kill("after")
final = trainer.evaluate()
if trainer.is_world_process_zero():
    values = {"loss": final["eval_loss"], "accuracy": final["eval_accuracy"]}
    (record / "final.json").write_text(
        json.dumps(values | {"iterations": trainer.state.global_step})
    )
