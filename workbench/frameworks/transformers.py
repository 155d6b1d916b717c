"""Have the Trainer of Hugging Face's transformers report what it logs.

A script of it that loads its own checkpoints saves one before it starts again elsewhere.
"""

from __future__ import annotations

import functools
from typing import Any, ClassVar

from workbench.engine.boundary import RunStopped
from workbench.engine.framework import Framework
from workbench.engine.reporting.report import plan, report_logged
from workbench.engine.run_context import current
from workbench.frameworks.torch.library_loop import remark_ranks


class TransformersFramework(Framework):
    """Hugging Face's transformers, whose loops are PyTorch's."""

    harmless = ("datasets", "huggingface_hub")
    caches = ("HF_HOME",)
    hooks: ClassVar = {"transformers.trainer": "workbench.frameworks.transformers:wrap_trainer"}
    requirements: ClassVar = {"transformers": "transformers"}


def wrap_trainer(module: Any) -> None:
    """Report what Hugging Face's Trainer logs, and ask it for a checkpoint where it is to have one.

    Args:
        module: ``transformers.trainer``.
    """

    class LoggedValues(module.TrainerCallback):
        """Hugging Face's callback that reports what its Trainer logs."""

        is_asked = False

        def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            plan(state.max_steps, state.num_train_epochs)
            if (run := current()) is not None and args.save_strategy != "no":
                run.boundaries.ask = self.ask

        def ask(self) -> bool:
            """Have it save a checkpoint at the end of this step."""
            self.is_asked = True
            return True

        def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            control.should_save |= self.is_asked

        def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            if self.is_asked:
                raise RunStopped(f"stopped at iteration {state.global_step}")

        def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            if (run := current()) is not None:
                run.boundaries.ask = None

        def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
            values = logs or {}
            report_logged({k: v for k, v in values.items() if not k.startswith("train_")})

    begin, train = module.Trainer.__init__, module.Trainer.train

    @functools.wraps(begin)
    def initialize(trainer: Any, *args: Any, **kwargs: Any) -> None:
        begin(trainer, *args, **kwargs)
        if current() is not None:
            trainer.add_callback(LoggedValues())

    @functools.wraps(train)
    def resume(trainer: Any, resume_from_checkpoint: Any = None, *args: Any, **kwargs: Any) -> Any:
        if current() is not None and resume_from_checkpoint and trainer.is_world_process_zero():
            path = resume_from_checkpoint
            path = module.get_last_checkpoint(trainer.args.output_dir) if path is True else path
            remark_ranks(path or "", "rng_state*.pth", trainer.args.world_size)
        return train(trainer, resume_from_checkpoint, *args, **kwargs)

    module.Trainer.__init__, module.Trainer.train = initialize, resume
