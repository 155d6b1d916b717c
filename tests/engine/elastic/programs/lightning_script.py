"""A small network that Lightning's Trainer trains, with several callbacks and its checkpoints."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lightning
import torch
import torchmetrics
from lightning.pytorch.callbacks import (
    Callback,
    EarlyStopping,
    EMAWeightAveraging,
    ModelCheckpoint,
    StochasticWeightAveraging,
)
from torch.utils.data import DataLoader

from tests.engine.elastic.programs.trainer_script import Network, Numbers, Stream


class Module(lightning.LightningModule):
    """Logs its losses by step, by epoch and in validations."""

    def __init__(self, here: Any) -> None:
        super().__init__()
        self.network = Network(here.dropout)
        self.here = here
        self.counted = 0

    def training_step(self, batch: Any, batch_idx: int) -> Any:
        self.here.noted(self.global_step, batch["number"].tolist())
        loss = self.network(**batch)["loss"]
        self.log("loss", loss, on_step=True, on_epoch=True, sync_dist=True)
        count = float(len(batch["number"]))  # ranks may have unequal shares of a batch
        sums = {"total": loss.detach() * count, "count": torch.tensor(count)}
        self.log_dict(sums, on_step=True, on_epoch=False, reduce_fx="sum", sync_dist=True)
        return loss

    def validation_step(self, batch: Any, batch_idx: int) -> None:
        self.here.killed("evaluate", self.global_step)
        self.log("validated", self.network(**batch)["loss"], sync_dist=True)

    def on_train_batch_end(self, *_: Any) -> None:
        self.counted += 1

    def configure_optimizers(self) -> Any:
        optimizer = torch.optim.AdamW(self.parameters(), lr=0.02)
        if "plateau" in self.here.ways:  # it is never better, so each validation lowers the rate
            plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, "max", patience=0)
            return [optimizer], [{"scheduler": plateau, "monitor": "validated"}]
        steps = self.trainer.estimated_stepping_batches
        scheduler = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.1, steps)
        return [optimizer], [{"scheduler": scheduler, "interval": "step"}]


class ByHand(Module):
    """Steps its optimizer itself."""

    def __init__(self, here: Any) -> None:
        super().__init__(here)
        self.automatic_optimization = False

    def training_step(self, batch: Any, batch_idx: int) -> Any:
        loss = super().training_step(batch, batch_idx)
        optimizer: Any = self.optimizers()
        optimizer.zero_grad()
        self.manual_backward(loss)
        optimizer.step()
        return loss


class Pairs(Module):
    """Is trained on the first of two loaders."""

    def training_step(self, batch: Any, batch_idx: int) -> Any:
        return super().training_step(batch[0], batch_idx)


class Measuring(Module):
    """Has a metric, which sums up an epoch on each rank."""

    def __init__(self, here: Any) -> None:
        super().__init__(here)
        self.error = torchmetrics.MeanMetric()

    def training_step(self, batch: Any, batch_idx: int) -> Any:
        loss = super().training_step(batch, batch_idx)
        self.error.update(loss.detach(), weight=len(batch["number"]))
        self.log("error", self.error, on_step=False, on_epoch=True)
        return loss


MODULES = {"by hand": ByHand, "two loaders": Pairs, "metric": Measuring}


class Watch(Callback):
    """Keeps the history of what was logged, and ends the rank where the test asks for it."""

    def __init__(self, here: Any) -> None:
        self.killed = here.killed
        self.losses: dict[int, list[tuple[float, float]]] = {}
        self.step = 0
        self.rates: dict[int, float] = {}
        self.evaluated: dict[int, float] = {}
        self.means: dict[str, float] = {}

    def on_train_batch_start(self, trainer: Any, *_: Any) -> None:
        self.step = trainer.global_step + 1

    def on_train_batch_end(self, trainer: Any, *_: Any) -> None:
        self.rates[self.step] = trainer.optimizers[0].param_groups[0]["lr"]
        total, count = (float(trainer.callback_metrics[name]) for name in ("total", "count"))
        self.losses.setdefault(self.step, []).append((total, count))

    def on_validation_end(self, trainer: Any, pl_module: Any) -> None:
        if not trainer.sanity_checking:
            self.evaluated[trainer.global_step] = float(trainer.callback_metrics["validated"])

    def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        for name in {"loss_epoch", "error"} & set(trainer.callback_metrics):
            self.means[f"{name} {trainer.global_step}"] = float(trainer.callback_metrics[name])

    def on_save_checkpoint(self, trainer: Any, pl_module: Any, checkpoint: Any) -> None:
        if "loops" in checkpoint:
            self.killed("save", trainer.global_step)

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        self.killed("end", trainer.global_step)


class Data(lightning.LightningDataModule):
    """Brings both loaders."""

    def __init__(self, train: DataLoader, validate: DataLoader) -> None:
        super().__init__()
        self.train, self.validate = train, validate

    def train_dataloader(self) -> DataLoader:
        return self.train

    def val_dataloader(self) -> DataLoader:
        return self.validate


def train(here: Any) -> None:
    lightning.seed_everything(here.seed, verbose=False)
    watch = Watch(here)
    checkpoints = ModelCheckpoint(
        here.place / "own", "{epoch}-{step}", monitor="validated", save_top_k=2, save_last=True
    )
    own = [
        watch,
        checkpoints,
        EarlyStopping("validated", min_delta=here.patience[0], patience=here.patience[1]),
        StochasticWeightAveraging(0.01)
        if "stochastic averages" in here.ways
        else EMAWeightAveraging(decay=0.9, update_every_n_steps=1),
    ]
    trainer = lightning.Trainer(
        accelerator="cpu",
        accumulate_grad_batches=here.accumulate,
        callbacks=own,
        default_root_dir=here.place,
        enable_progress_bar=False,
        enable_model_summary=False,
        **{"max_epochs": here.epochs, "logger": False, **here.arguments},
    )
    module = next((kind for way, kind in MODULES.items() if way in here.ways), Module)(here)
    fitted = torch.compile(module, backend="eager") if "compiled" in here.ways else module
    data: Any = (Stream if here.streams else Numbers)(here.examples, here.noise)
    loader = DataLoader(
        data,
        batch_size=here.batch,
        shuffle=None if here.streams else True,
        num_workers=here.workers,
        persistent_workers=here.workers > 0,
    )
    loader = [loader, loader] if "two loaders" in here.ways else loader
    last = here.place / "own" / "last.ckpt"
    newest: Any = last if (here.own or here.loads) and last.exists() else None
    newest = "last" if "last" in here.ways else newest
    validated = DataLoader(Numbers(48), batch_size=4)
    if "data module" in here.ways:
        trainer.fit(fitted, datamodule=Data(loader, validated), ckpt_path=newest)
    else:
        trainer.fit(fitted, loader, validated, ckpt_path=newest)
    found = here.found
    if "two fits" in here.ways:
        trainer.fit_loop.max_epochs *= 2
        trainer.fit(fitted, loader, validated)
    (found["after"],) = trainer.validate(fitted, validated, verbose=False)
    found["ranks"] = trainer.world_size
    sums = {step: [*map(sum, zip(*each, strict=True))] for step, each in watch.losses.items()}
    found["losses"] = {step: total / count for step, (total, count) in sums.items()}
    found["rates"] = watch.rates
    found["evaluated"], found["means"] = watch.evaluated, watch.means
    found["counted"] = module.counted
    found["weights"] = [float(one.double().sum()) for one in module.parameters()]
    found["best"] = Path(checkpoints.best_model_path).name
    found["score"] = float(checkpoints.best_model_score)
    found["last"] = float(torch.rand(1))
