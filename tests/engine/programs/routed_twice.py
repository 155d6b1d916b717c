"""Route the output twice, and write to both streams."""

from __future__ import annotations

import sys

from workbench.engine.output.output_capture import OutputStream, route_output

route_output()
first = sys.stdout
route_output()
assert sys.stdout is sys.__stdout__ is first
assert isinstance(sys.stderr, OutputStream)
print("out")
print("err", file=sys.stderr)
