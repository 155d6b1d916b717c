"""Start one bare machine, print its name and process, and wait: ``one_machine.py FOLDER``."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.rehearsal.bare.debian import Debian
from tests.rehearsal.hosts import Disk, Hosts

base = Debian(Path(sys.argv[1]))
with Hosts() as hosts:
    disk = Disk(base.disks / "one", (base.base,), binds=base.binds)
    print(hosts.name, hosts.start(disk=disk).pid, flush=True)
    sys.stdin.read()
