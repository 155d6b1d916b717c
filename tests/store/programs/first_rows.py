"""Read the first row of many kinds in several threads at the same moment."""

from __future__ import annotations

import sys
import threading
from dataclasses import make_dataclass
from typing import Any

from workbench.core.messages import decode
from workbench.store.rows import of_json

TEXT = '{"one": {}, "more": [{}]}'
KINDS, THREADS, TIMES = 100, 4, 10

sys.setswitchinterval(1e-6)
for number in range(KINDS):
    inner: Any = make_dataclass(f"Inner{number}", [(f"a{at}", int, 1) for at in range(60)])
    kind = make_dataclass(f"Outer{number}", [("one", inner), ("more", tuple[inner, ...])])
    together = threading.Barrier(THREADS)

    def read(kind: type = kind, together: threading.Barrier = together) -> None:
        together.wait()
        for _ in range(TIMES):
            of_json(kind, TEXT)
            decode(kind, TEXT)

    threads = [threading.Thread(target=read) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
print("ended")
