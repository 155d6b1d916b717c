"""Do empty trials with Optuna, one after another, and print the seconds: ``optuna_trials.py N``."""

from __future__ import annotations

import sys
import time

import optuna

optuna.logging.set_verbosity(optuna.logging.ERROR)
begun = time.perf_counter()
study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
study.optimize(
    lambda trial: (trial.suggest_float("lr", 1e-3, 1, log=True) - 0.3) ** 2,
    n_trials=int(sys.argv[1]),
)
print(time.perf_counter() - begun)
