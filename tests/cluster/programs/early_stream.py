"""Bind a stream before an engine redirects its output, and write to it afterwards."""

from __future__ import annotations

import io
import sys
from typing import Any

import workbench.cluster.engine as module

ours = sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__


def report(text: str, out: Any = sys.stdout) -> None:  # as Chainer's PrintReport binds it
    out.write(text)


class Theirs(io.StringIO):
    """As much as is needed of the stream that ipyparallel would set."""

    def __init__(self, session: Any, socket: Any, name: str) -> None:
        super().__init__()


class Engine(module.Engine):
    """An engine whose stream is ours to look at."""

    out_stream_factory, display_hook_factory = Theirs, None


engine = Engine(log_level=20)
engine.log.info("before")
engine.redirect_output(None)
engine.log.info("after")
report("to clients")
shown: Any = sys.stdout
errors: Any = sys.stderr
assert (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__) == ours
assert shown.getvalue() == "to clients", shown.getvalue()
assert errors.getvalue() == "", errors.getvalue()
