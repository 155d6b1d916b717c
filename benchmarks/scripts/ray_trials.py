"""Do empty trials with Ray Tune, one after another, and print the seconds: ``ray_trials.py N``."""

from __future__ import annotations

import sys
import tempfile
import time

import ray
from ray import tune


def _train(config: dict[str, float]) -> None:
    tune.report({"loss": (config["lr"] - 0.3) ** 2})


ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False, logging_level="error")
with tempfile.TemporaryDirectory() as folder:
    begun = time.perf_counter()
    tune.Tuner(
        _train,
        param_space={"lr": tune.loguniform(1e-3, 1)},
        tune_config=tune.TuneConfig(
            num_samples=int(sys.argv[1]), metric="loss", mode="min", max_concurrent_trials=1
        ),
        run_config=tune.RunConfig(storage_path=folder, verbose=0),
    ).fit()
    took = time.perf_counter() - begun
ray.shutdown()
print(took)
