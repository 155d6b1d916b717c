"""Train a small network on GPU 0 by Lightning, with dropout.

Argument: a file, which the last rank leaves where it ends itself once; without it, none does.
"""

import os
import sys

import lightning
import torch
from lightning.pytorch.callbacks import Callback, EMAWeightAveraging
from mortal import end_once
from torch.utils.data import DataLoader, TensorDataset

files = sys.argv[1:]


class Network(lightning.LightningModule):
    """A small network."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.Sequential(
            torch.nn.Linear(64, 200),
            torch.nn.Dropout(0.1),
            torch.nn.ReLU(),
            torch.nn.Linear(200, 8),
        )

    def training_step(self, batch, _):
        images, labels = batch
        loss = torch.nn.functional.cross_entropy(self.layers(images), labels)
        self.log("train_loss", loss, on_step=False, on_epoch=True, sync_dist=True)
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=0.01)


class Mortal(Callback):
    """Ends the last rank once."""

    def on_train_batch_end(self, trainer, *_) -> None:
        if trainer.global_rank == trainer.world_size - 1 and trainer.global_step >= 20:
            end_once(files)


lightning.seed_everything(20_260, verbose=False)
images = torch.rand(512, 64)
labels = images.reshape(-1, 8, 8).sum(dim=2).argmax(dim=1)
trainer = lightning.Trainer(
    accelerator="gpu",
    devices=int(os.environ["WORLD_SIZE"]),
    strategy="ddp",
    max_epochs=8,
    log_every_n_steps=1,
    logger=False,
    enable_checkpointing=False,
    callbacks=[Mortal(), EMAWeightAveraging(decay=0.9)],
    enable_progress_bar=False,
    enable_model_summary=False,
)
model = Network()
trainer.fit(model, DataLoader(TensorDataset(images, labels), 32, shuffle=True))
assert trainer.strategy.root_device.type == "cuda", trainer.strategy.root_device
if trainer.is_global_zero:
    loss = trainer.callback_metrics["train_loss"].item()
    backend = torch.distributed.get_backend()
    steps = f"{trainer.global_step} steps on {trainer.world_size} ranks by {backend}"
    print(f"CHECKED loss {loss:.6f} in {steps}, each on {trainer.strategy.root_device}")
