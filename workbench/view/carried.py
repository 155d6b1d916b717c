"""Say what of a run's gradients goes over the wire, what is lost on the way, and what it costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from workbench.core.exchange import Codec
from workbench.core.metrics import EXCHANGE_PREFIX
from workbench.core.run import Run
from workbench.core.size import size_text
from workbench.store import Store

_CODECS = tuple(Codec)


@dataclass(frozen=True)
class Carried:
    """One step's exchange of gradients, as our communicator carries it.

    Args:
        wire: Bytes that a rank sends.
        plain: Bytes that it would send if nothing were compressed.
        error: Share of a gradient that compression leaves for the next step; 0 where it is
            not known.
        seconds: Of the whole exchange, wherever it happens.
        coding: Seconds of it in which a rank codes.
    """

    codec: Codec
    wire: float
    plain: float
    seconds: float
    coding: float = 0.0
    error: float = 0.0


def carried_of(store: Store, run: Run) -> Carried | None:
    """Return how the gradients of ``run`` are carried; None where they are not by us."""
    told = [one for one in store.measured(run.id, EXCHANGE_PREFIX).values() if "codec" in one]
    ranks = run.fact.ranks
    if not told or ranks < 2:
        return None
    first = told[0]
    codec, nbytes = _CODECS[round(first["codec"])], first.get("nbytes", 0.0)
    coded = nbytes * (1 - first.get("small", 0.0))
    return Carried(
        codec,
        wire=_mean(told, "wire"),
        plain=2 * (ranks - 1) / ranks * nbytes,
        # Who comes last waits for nobody.
        seconds=min(one.get("whole", 0.0) for one in told),
        coding=first.get(f"cost {codec}", 0.0) * coded,
        error=max(one.get("error", 0.0) for one in told),
    )


def sentence(carried: Carried) -> str:
    """Return it in words."""
    took = f"the exchange takes {1000 * carried.seconds:.3g} ms"
    if carried.codec is Codec.NONE:
        return f"Each rank sends {size_text(carried.wire)} a step, uncompressed; {took}."
    said = (
        f"Compressed by {carried.codec}: each rank sends {size_text(carried.wire)} a step in "
        f"place of {size_text(carried.plain)}; "
    )
    if carried.error:
        said += f"{100 * carried.error:.3g} % of a gradient is left for the next step; "
    if carried.coding:
        took += f", about {1000 * carried.coding:.3g} ms of coding with it"
    return f"{said}{took}."


def _mean(told: Sequence[Mapping[str, float]], name: str) -> float:
    return fmean(one.get(name, 0.0) for one in told)
