"""Train a small network of transformers on GPU 0 by its Trainer."""

import os
import tempfile

import torch

os.environ["HF_HUB_OFFLINE"] = "1"
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments

torch.manual_seed(20_260)
shape = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
config = BertConfig(vocab_size=50, intermediate_size=64, num_labels=2, **shape)
words = torch.randint(0, 50, (256, 12))
data = [{"input_ids": one, "labels": int(one[0] > 25)} for one in words]
with tempfile.TemporaryDirectory() as folder:
    arguments = TrainingArguments(
        folder,
        per_device_train_batch_size=16,
        num_train_epochs=3,
        learning_rate=1e-3,
        logging_steps=1,
        report_to=[],
        save_strategy="no",
        disable_tqdm=True,
    )
    trainer = Trainer(BertForSequenceClassification(config), arguments, train_dataset=data)
    result = trainer.train()
device = next(trainer.model.parameters()).device
assert device.type == "cuda", device
print(f"CHECKED loss {result.training_loss:.3f} in {result.global_step} steps on {device}")
