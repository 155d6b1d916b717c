"""Train a small network of transformers on GPU 0 by its Trainer, with dropout.

Arguments: the backend of its process group, and a file, which the last rank leaves where it ends
itself once; without it, none does.
"""

import os
import sys
import tempfile

import torch
from mortal import end_once

os.environ["HF_HUB_OFFLINE"] = "1"
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    Trainer,
    TrainerCallback,
    TrainingArguments,
)

backend, *files = sys.argv[1:]


class Mortal(TrainerCallback):
    """Ends the last rank once."""

    def on_step_end(self, args, state, control, **_) -> None:
        if args.process_index == args.world_size - 1 and state.global_step >= 20:
            end_once(files)


torch.manual_seed(20_260)
shape = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
config = BertConfig(vocab_size=50, intermediate_size=64, num_labels=2, **shape)
words = torch.randint(0, 50, (256, 12))
data = [{"input_ids": one, "labels": int(one[0] > 25)} for one in words]
with tempfile.TemporaryDirectory() as folder:
    arguments = TrainingArguments(
        folder,
        per_device_train_batch_size=16,
        num_train_epochs=8,
        learning_rate=1e-3,
        logging_steps=1,
        report_to=[],
        save_strategy="no",
        disable_tqdm=True,
        ddp_backend=backend,
    )
    trainer = Trainer(
        BertForSequenceClassification(config),
        arguments,
        train_dataset=data,
        callbacks=[Mortal()],
    )
    result = trainer.train()
device = next(trainer.model.parameters()).device
assert device.type == "cuda", device
if trainer.is_world_process_zero():
    steps = f"{result.global_step} steps on {arguments.world_size} ranks"
    print(f"CHECKED loss {result.training_loss:.6f} in {steps}, each on {device}")
