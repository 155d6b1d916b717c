"""Hold a GPU until standard input ends: ``hold_gpu.py PLACE FOLDER``."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from workbench.engine.own_gpu import GPUS_VARIABLE, hold_gpu

held = hold_gpu(int(sys.argv[1]), Path(sys.argv[2]), wait=0.2)
print(repr(held), os.environ.get(GPUS_VARIABLE), flush=True)
sys.stdin.read()
