"""Train by Lightning's strategy for notebooks."""

import lightning
import torch
from torch.utils.data import DataLoader, TensorDataset


class Module(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)

    def training_step(self, batch, batch_idx):
        return self.layer(batch[0]).pow(2).mean()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.05)


trainer = lightning.Trainer(
    accelerator="cpu",
    devices=2,
    strategy="ddp_notebook",
    max_epochs=1,
    logger=False,
    enable_checkpointing=False,
    enable_progress_bar=False,
    enable_model_summary=False,
)
trainer.fit(Module(), DataLoader(TensorDataset(torch.ones(40, 4)), batch_size=4))
print("trained", trainer.global_rank, "of", trainer.world_size)
