"""Train a small network on handwritten digits by Lightning, as a user would write it.

Beside that, each rank notes the examples of its steps, lingers or waits as the test says, and is
killed once where the test asks for it: ``kill_at`` has a rank, what it does, and the step.
"""

from __future__ import annotations

import json
import os
import signal
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import lightning
import numpy
import torch
from lightning.pytorch.callbacks import (
    Callback,
    EarlyStopping,
    EMAWeightAveraging,
    LearningRateMonitor,
    ModelCheckpoint,
)
from sklearn.datasets import load_digits
from torch.utils.data import DataLoader, Dataset

record, seed, epochs = Path(globals()["record"]), globals()["seed"], globals()["epochs"]
EXAMPLES, BATCH = 960, 64  # of all ranks, where the first ones are two
VALIDATED = 828  # is divided by each number of ranks, as Lightning fills up what is not
torch.set_num_threads(1)
lightning.seed_everything(seed, verbose=False)
images, labels = load_digits(return_X_y=True)
order = numpy.random.RandomState(seed).permutation(len(images))


class Digits(Dataset[Any]):
    """Some of the images, which know their number."""

    def __init__(self, first: int, count: int) -> None:
        self.numbers = order[first : first + count]

    def __len__(self) -> int:
        return len(self.numbers)

    def __getitem__(self, n: int) -> Any:
        image = self.numbers[n]
        return torch.from_numpy((images[image] / 16).astype("f")), int(labels[image]), n


def kill(doing: str) -> None:
    """End this rank at once if it is to be killed while it does this in this step."""
    asked = json.loads(globals().get("kill_at", "null"))
    if not trainer.sanity_checking and asked == [trainer.global_rank, doing, trainer.global_step]:
        with suppress(FileExistsError):
            (record / "killed").touch(exist_ok=False)
            os.kill(os.getpid(), signal.SIGKILL)


def wait() -> None:
    """Wait in this step until the test has done what it asks for meanwhile."""
    if trainer.global_step == globals().get("wait_at") and not trainer.sanity_checking:
        (record / "waits").touch()
        while not (record / "go").exists():
            time.sleep(0.05)


class Network(lightning.LightningModule):
    """A small network."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.Sequential(
            torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10)
        )

    def training_step(self, batch: Any, batch_idx: int) -> Any:
        x, wanted, numbers = batch
        visits = (f"{self.current_epoch}:{n}" for n in numbers.tolist())
        print(self.global_step, *visits, file=written, flush=True)
        kill("train")
        loss = torch.nn.functional.cross_entropy(self.layers(x), wanted)
        self.log("train_loss", loss, on_step=False, on_epoch=True, sync_dist=True)
        return loss

    def validation_step(self, batch: Any, batch_idx: int) -> None:
        x, wanted, _ = batch
        kill("validate")
        wait()
        found = self.layers(x)
        loss = torch.nn.functional.cross_entropy(found, wanted)
        right = (found.argmax(1) == wanted).float().mean()
        self.log_dict({"eval_loss": loss, "eval_accuracy": right}, sync_dist=True)

    def configure_optimizers(self) -> Any:
        optimizer = torch.optim.Adam(self.parameters(), lr=0.01)
        steps = self.trainer.estimated_stepping_batches
        scheduler = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.1, int(steps))
        return [optimizer], [{"scheduler": scheduler, "interval": "step"}]


class Lingering(Callback):
    """Has each step take as long as the test says; its hooks are where ranks are killed."""

    def on_train_batch_end(self, *_: Any) -> None:
        began = time.monotonic()
        with suppress(FileNotFoundError):
            while time.monotonic() - began < float((record / "pause").read_text()):
                time.sleep(0.05)

    def on_save_checkpoint(self, trainer: Any, pl_module: Any, checkpoint: Any) -> None:
        if "loops" in checkpoint:  # it is one of Lightning's
            kill("save")

    def on_train_epoch_end(self, *_: Any) -> None:
        kill("end the epoch")

    def on_train_end(self, *_: Any) -> None:
        kill("end")


checkpoints = ModelCheckpoint(
    record / "own", "{epoch}-{step}", monitor="eval_loss", save_top_k=2, save_last=True
)
patience = EarlyStopping("eval_loss", patience=5)
trainer = lightning.Trainer(
    accelerator="cpu",
    devices=2,
    max_epochs=epochs,
    log_every_n_steps=1,
    default_root_dir=record,
    callbacks=[
        Lingering(), checkpoints, patience, LearningRateMonitor(), EMAWeightAveraging(decay=0.9),
    ],
    enable_progress_bar=False,
    enable_model_summary=False,
)  # fmt: skip
name = f"{os.environ['WORKBENCH_GENERATION']}-{os.environ['RANK']}.txt"
written = (record / name).open("a", encoding="utf-8")
trainer.fit(
    model := Network(),
    DataLoader(Digits(0, EXAMPLES), BATCH // 2, shuffle=True),
    DataLoader(Digits(EXAMPLES, VALIDATED), 69),
)
kill("after")
(final,) = trainer.validate(model, DataLoader(Digits(EXAMPLES, VALIDATED), 69), verbose=False)
if trainer.is_global_zero:
    values = {
        "loss": final["eval_loss"],
        "accuracy": final["eval_accuracy"],
        "iterations": trainer.global_step,
        "best": int(checkpoints.best_model_path.partition("step=")[2].split("-")[0].split(".")[0]),
        "score": float(checkpoints.best_model_score),
        "waited": patience.wait_count,
        "weights": float(sum(one.double().abs().sum() for one in model.parameters())),
    }
    (record / "final.json").write_text(json.dumps(values))
