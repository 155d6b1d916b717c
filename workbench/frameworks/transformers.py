"""Have the Trainer of Hugging Face's transformers report what it logs."""

from __future__ import annotations

import functools
from typing import Any, ClassVar

from workbench.engine.framework import Framework
from workbench.engine.reporting.report import plan, report_logged
from workbench.engine.run_context import current


class TransformersFramework(Framework):
    """Hugging Face's transformers, whose loops are PyTorch's."""

    harmless = ("datasets", "huggingface_hub")
    caches = ("HF_HOME",)
    hooks: ClassVar = {"transformers.trainer": "workbench.frameworks.transformers:wrap_trainer"}
    requirements: ClassVar = {"transformers": "transformers"}


def wrap_trainer(module: Any) -> None:
    """Report what Hugging Face's Trainer logs."""

    class LoggedValues(module.TrainerCallback):
        """Hugging Face's callback that reports what its Trainer logs."""

        def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            plan(state.max_steps, state.num_train_epochs)

        def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
            values = logs or {}
            report_logged({k: v for k, v in values.items() if not k.startswith("train_")})

    begin = module.Trainer.__init__

    @functools.wraps(begin)
    def initialize(trainer: Any, *args: Any, **kwargs: Any) -> None:
        begin(trainer, *args, **kwargs)
        if current() is not None:
            trainer.add_callback(LoggedValues())

    module.Trainer.__init__ = initialize
