"""Write fifty lines to a log and print one to the terminal: ``write_log.py LOG``."""

from __future__ import annotations

import logging
import sys
from pathlib import Path

from workbench.supervisor.housekeeping import LogFile

logging.basicConfig(level=logging.INFO, handlers=[LogFile(Path(sys.argv[1]), 1000)])
for n in range(50):
    logging.info("line %d", n)
print("printed", flush=True)
