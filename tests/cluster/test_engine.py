"""An engine has the same standard streams from before its first import until it ends."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import io, os, sys
import workbench.cluster.engine as module
ours = sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__

def report(text, out=sys.stdout):  # as Chainer's PrintReport binds it
    out.write(text)

class Theirs(io.StringIO):
    def __init__(self, session, socket, name):
        super().__init__()

class Engine(module.Engine):
    out_stream_factory, display_hook_factory = Theirs, None

engine = Engine(log_level=20)
engine.log.info("before")
engine.redirect_output(None)
engine.log.info("after")
report("to clients")
assert (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__) == ours
assert sys.stdout.getvalue() == "to clients", sys.stdout.getvalue()
assert sys.stderr.getvalue() == "", sys.stderr.getvalue()
"""


def test_what_bound_a_stream_early_goes_on_by_it() -> None:
    answer = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False
    )

    assert answer.returncode == 0, answer.stderr
    assert answer.stdout == ""
    assert [line.rpartition(" ")[2] for line in answer.stderr.splitlines()] == ["before", "after"]
