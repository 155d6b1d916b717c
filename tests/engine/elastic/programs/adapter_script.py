"""Adapters of a tiny language model, trained by Hugging Face's Trainer or by TRL's."""

from __future__ import annotations

from typing import Any

import torch
from peft import LoraConfig, get_peft_model
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

WORDS = 32


class Texts(torch.utils.data.Dataset):
    """Rows of words that begin with their number."""

    def __init__(self, examples: int) -> None:
        generator = torch.Generator().manual_seed(1)
        self.rows = torch.randint(0, WORDS, (examples, 8), generator=generator)
        self.rows[:, 0] = torch.arange(examples) % WORDS

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, number: int) -> dict[str, Any]:
        row = self.rows[number]
        return {"input_ids": row, "labels": row}


def sft(here: Any, given: dict[str, Any], model: Any, lora: Any) -> Any:
    from datasets import Dataset
    from tokenizers import Tokenizer, models
    from transformers import PreTrainedTokenizerFast
    from trl import SFTConfig, SFTTrainer

    names = {f"w{number}": number for number in range(WORDS - 2)}
    names |= {"<unk>": WORDS - 2, "<end>": WORDS - 1}
    plain = Tokenizer(models.WordLevel(names, unk_token="<unk>"))
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=plain, eos_token="<end>", pad_token="<end>", unk_token="<unk>"
    )
    rows = [{"input_ids": one["input_ids"].tolist()} for one in Texts(here.examples)]
    return SFTTrainer(
        model=model,
        # Half precision, its default, rounds otherwise where shares differ.
        args=SFTConfig(max_length=8, bf16=False, **given),
        train_dataset=Dataset.from_list(rows),
        processing_class=tokenizer,
        peft_config=lora,
    )


def train(here: Any) -> None:
    torch.manual_seed(3)
    config = GPT2Config(
        vocab_size=WORDS, n_positions=8, n_embd=16, n_layer=1, n_head=2,
        attn_pdrop=0.0, embd_pdrop=0.0, resid_pdrop=0.0,
    )  # fmt: skip
    model = GPT2LMHeadModel(config)
    lora = LoraConfig(r=2, target_modules=["c_attn"], fan_in_fan_out=True, task_type="CAUSAL_LM")
    given = {
        "output_dir": str(here.place / "own"),
        "per_device_train_batch_size": here.batch,
        "num_train_epochs": here.epochs,
        "learning_rate": 0.02,
        "logging_steps": 1,
        "save_strategy": "no",
        "report_to": [],
        "use_cpu": True,
        "disable_tqdm": True,
        **here.arguments,
    }
    if here.model == "sft":
        trainer = sft(here, given, model, lora)
    else:
        trainer = Trainer(
            model=get_peft_model(model, lora),
            args=TrainingArguments(**given),
            train_dataset=Texts(here.examples),
        )
    before = next(iter(trainer.model.base_model.model.transformer.wte.parameters())).sum().item()
    result = trainer.train()
    after = next(iter(trainer.model.base_model.model.transformer.wte.parameters())).sum().item()
    logs = trainer.state.log_history
    here.found["losses"] = {one["step"]: one["loss"] for one in logs if "loss" in one}
    here.found["train_loss"] = result.metrics["train_loss"]
    here.found["frozen"] = before == after
    here.found["weights"] = [
        float(one.double().sum()) for one in trainer.model.parameters() if one.requires_grad
    ]
