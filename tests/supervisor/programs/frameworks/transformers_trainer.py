"""Train a tiny language model by Hugging Face's Trainer, which logs its loss at each step."""

from __future__ import annotations

import tempfile

import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

config = GPT2Config(vocab_size=32, n_positions=16, n_embd=16, n_layer=1, n_head=2)
torch.manual_seed(7)
words = torch.randint(0, 32, (64, 16))
examples = [{"input_ids": one, "labels": one} for one in words]
with tempfile.TemporaryDirectory() as folder:
    arguments = TrainingArguments(
        output_dir=folder,
        per_device_train_batch_size=8,
        num_train_epochs=3,
        logging_steps=1,
        save_strategy="no",
        report_to=[],
        use_cpu=True,
        disable_tqdm=True,
    )
    trainer = Trainer(model=GPT2LMHeadModel(config), args=arguments, train_dataset=examples)
    trainer.train()
    state = trainer.state
    print(
        "ranks", arguments.world_size, "rank", arguments.process_index, "steps", state.global_step
    )
