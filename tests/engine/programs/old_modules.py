"""Import what uses compiled modules beside other sources; print which of them it uses."""

import json
import sys
from importlib import import_module
from pathlib import Path

from workbench.engine import compiled_modules

compiled_modules.SOURCES = Path(sys.argv[1])
ring = import_module("workbench.engine.exchange.ring")
codecs = import_module("workbench.engine.exchange.codecs")
timing = import_module("workbench.engine.timing.call_timing")
effects = import_module("workbench.engine.cell_effects")
folder = import_module("workbench.engine.snapshot.folder")
found = {
    "ring_kernels": ring.ring_kernels,
    "codec_kernels": codecs.codec_kernels,
    "timed_calls": timing.compiled,
    "audit_events": effects.audit_events,
    "checksum": folder.checksum if folder.checksum.__name__ != "zlib" else None,
}
print(json.dumps([name for name, module in found.items() if module is not None]))
