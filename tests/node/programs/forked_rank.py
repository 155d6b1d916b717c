"""Show what a rank has from its parent, then end in the way that it is asked."""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
import threading
import time
from importlib import import_module
from pathlib import Path

import numpy


def shown() -> dict[str, object]:
    """Return what must be the same however this process was started."""
    return {
        "stub": os.environ.get("WORKBENCH_STUB", ""),
        "folder": os.getcwd(),
        "umask": os.umask(0o77),
        "nice": os.nice(0),
        "limits": [resource.getrlimit(number) for number in range(16)],
        "cores": sorted(os.sched_getaffinity(0)),
        "oom": Path("/proc/self/oom_score_adj").read_text(),
        "environment": {n: v for n, v in os.environ.items() if n not in ("WORKBENCH_STUB", "_")},
        "kernel's": sorted(
            one
            for one in Path("/proc/self/environ").read_text().split("\0")
            if one and not one.startswith(("WORKBENCH_STUB=", "_="))
        ),
        "command": Path("/proc/self/cmdline").read_text().rstrip("\0").split("\0"),
        "arguments": sys.argv[1:],
        "path": sys.path[0],
        "files": {
            name: os.readlink(f"/proc/self/fd/{name}") for name in sys.argv[2].split(",") if name
        },
        "signals": {
            number.name: str(signal.getsignal(number))
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE)
        },
        "blocked": sorted(signal.pthread_sigmask(signal.SIG_BLOCK, ())),
        "threads": threading.active_count(),
        "name": __name__,
    }


def main() -> None:
    """Do one thing."""
    what = sys.argv[1]
    if what == "show":
        print(json.dumps(shown()))
        print("a warning", file=sys.stderr)
    elif what == "modules":
        print(*sys.modules)
    elif what == "torch":
        import torch

        print(torch.get_num_threads(), torch.zeros(100_000).add(1).sum().item())
    elif what == "exit":
        sys.exit(int(sys.argv[3]))
    elif what == "end":
        os.kill(os.getpid(), int(sys.argv[3]))
    elif what == "read":
        print(sys.stdin.read()[::-1])
    elif what == "draw":
        print(numpy.random.rand())
    else:
        for name in sys.argv[3:]:
            import_module(name)
        signal.signal(signal.SIGUSR1, lambda *_: print("heard", flush=True))
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))
        print(os.getpid(), flush=True)
        while True:
            time.sleep(0.01)


if __name__ == "__main__":
    main()
