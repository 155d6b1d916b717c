"""Train as a run whose snapshots are saved, and again for longer as its second attempt.

``… ENDPOINT KEY RUN SOURCE``
"""

from __future__ import annotations

from tests.engine.programs.joined import arguments, folder, found, real, run, shell, stay
from workbench.frameworks.chainer.framework import ChainerFramework

name, source = arguments
ChainerFramework().install()
saved = {"snapshots": str(folder / "snapshots")}
run(name, source, environment=(("STEPS", "7"),), **saved)
found["first"] = shell.user_ns["seen"]
real.Barrier()  # a supervisor resumes a run that has ended on all ranks
again = {"attempt": 2, "resume": True, "directory": str(folder / "again")}
run(name, source, environment=(("STEPS", "9"),), **saved, **again)
found["second"] = shell.user_ns["seen"]
stay()
