"""Run a script, named first, in a process that is prepared as a rank's; say what its run got."""

from __future__ import annotations

import signal
import sys
import time
import types
from pathlib import Path

from workbench.core.run.rank_protocol import Batch, decode_message
from workbench.engine.forked_children import ForkedChildren, end_forked
from workbench.engine.output.descriptor_capture import DescriptorCapture
from workbench.engine.output.output_capture import catch_up_by, route_output
from workbench.engine.reporting.run_log import RunLog
from workbench.engine.run_context import RunContext, set_current


def stay(*_: object) -> None:
    """Take a signal as ipyparallel does, which would end an event loop."""


signal.signal(signal.SIGTERM, stay)
folder = Path(sys.argv[2])
route_output()
children = ForkedChildren([stay])
descriptors = DescriptorCapture(folder / "words-1-0")
log = RunLog("260101-000000-abcd", 0, folder / "rank-0.log")
catch_up_by(lambda: descriptors.pull(log.note))
set_current(RunContext(log))
source = Path(sys.argv[1]).read_text(encoding="utf-8")
sys.modules["__main__"] = main = types.ModuleType("__main__")
main.__file__ = sys.argv[1]
with end_forked():
    exec(compile(source, sys.argv[1], "exec", dont_inherit=True), main.__dict__)
descriptors.pull_all(log.note, lambda: time.sleep(0))
set_current(None)
descriptors.close()
while line := log.take():
    batch = decode_message(line)
    assert isinstance(batch, Batch)
    for chunk in batch.chunks:
        sys.__stdout__.write(f"{chunk.stream}: {chunk.text}")  # type: ignore[union-attr]  # it is not None here
