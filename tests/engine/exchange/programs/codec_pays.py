"""Have a communicator say whether a codec pays, on a slow link and with a slow codec."""

from __future__ import annotations

import contextlib
import io
import time
from typing import Any
from unittest.mock import patch

import numpy as np

from tests.engine.exchange.programs.reference import make, means_of
from tests.engine.programs.world import found, write_found
from workbench.core.performance.exchange_model import Codec
from workbench.engine.exchange.codecs import build_element_codec
from workbench.engine.exchange.reducer import Reducer

Int8 = type(build_element_codec(Codec.INT8))  # of NumPy, or compiled
quick = Reducer.mean, Int8.encode


def remark(codec: str, slow: str, shape: tuple[int, ...] = (600, 500)) -> tuple[str, float]:
    """Return what is printed for a codec, and the seconds that it took to encode."""

    def mean(self: Any, arrays: Any, findings: Any = None) -> Any:
        time.sleep(0.2 if slow == "link" and sum(a.nbytes for a in arrays) > 1e6 else 0)
        return quick[0](self, arrays, findings)

    def encode(self: Any, *args: Any, **kwargs: Any) -> bool:
        time.sleep(0.05 if slow == "codec" else 0)
        return quick[1](self, *args, **kwargs)

    with (
        patch.object(Reducer, "mean", mean),
        patch.object(Int8, "encode", encode),
        contextlib.redirect_stdout(io.StringIO()) as text,
    ):
        comm = make("auto", compress=codec, overlap=False)
        means_of(comm, [np.ones(shape, "f4")])
    return text.getvalue(), comm.exchanger.tally.coding


for codec in ("int8", "topk", "powersgd"):
    found[f"link {codec}"] = remark(codec, "link")
found["codec"] = remark("int8", "codec")
found["small"] = remark("powersgd", "", (9, 9))

write_found()
