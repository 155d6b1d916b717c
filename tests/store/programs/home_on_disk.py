"""Ask for a data directory that is not there yet on this disk, and print the error."""

from __future__ import annotations

import os

from workbench.errors import MachineError
from workbench.store.paths import home_directory

os.environ["WORKBENCH_HOME"] += "/home"
try:
    home_directory()
except MachineError as error:
    print(error)
