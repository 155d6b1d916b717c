"""Average the gradients of all ranks: agree on their layout once, then exchange at each step.

In a steady state only the gradients are sent: small ones go last, fused with a header. A number
that is not finite leaves no sum finite, so one look at the sums, which are the same on all ranks,
shows whether some rank's gradients changed or are no longer finite: then the header has an
infinity, for gradients that are not in its message, too. A rank whose gradients changed still
takes part, with zeros, so that no other rank waits for it; then all ranks exchange their shapes,
and continue with a new layout or raise the same error.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy

from workbench.core.performance.exchange_model import CODINGS, Algorithm, Codec
from workbench.engine.exchange.bucket_layout import (
    HEADER,
    Bucket,
    BucketLayout,
    GradientShape,
    GradientStorage,
    find_disagreement,
    scale_back,
    shape_of,
)
from workbench.engine.exchange.compressed import Compressed
from workbench.engine.exchange.costs import build_codec
from workbench.engine.exchange.nonfinite import NonfiniteFindings, find_nonfinite, is_suspect
from workbench.engine.exchange.powersgd import is_worthwhile
from workbench.engine.exchange.reducer import Reducer
from workbench.engine.exchange.transport import Array
from workbench.errors import GradientError

_WHOLE = 1 << 62
_SHARE_OF_LATENCY = 20
_LEAST_BUCKETS = 4
BUCKET_BYTES = (1 << 20, 25 << 20)
# What copying gradients to the header costs, where it would travel alone. The way back costs
# nothing: their sums are multiplied on it.
_COPIED_BYTES_PER_SECOND = 8e9
_MOST_CLOSING_BYTES = 4 << 20
# A second message waits at least so long for the slowest rank, however fast the link is.
_LEAST_HEADER_SECONDS = 5e-5


@dataclass
class ExchangeTally:
    """The measurements of the last exchange.

    Args:
        seconds: Of the buckets, in any thread.
        nbytes: That this rank sent.
        coding: Seconds of it for compression on a core.
        error: The compression error over the gradient; 0 if it was not measured.
        algorithms: The algorithms of the buckets.
    """

    seconds: float = 0.0
    nbytes: float = 0.0
    coding: float = 0.0
    error: float = 0.0
    algorithms: dict[Algorithm, None] = field(default_factory=dict)

    def clear(self) -> None:
        """Begin another exchange."""
        self.seconds = self.nbytes = self.coding = self.error = 0.0
        self.algorithms.clear()


class PendingExchange:
    """The gradients of one backward pass as they become complete."""

    def __init__(self, plan: BucketLayout | None) -> None:
        self.order: list[int] = []
        self.arrays: dict[int, Array] = {}
        self.left = [len(bucket.slots) for bucket in plan.buckets] if plan else []
        self.launched = 0


class Exchanger:
    """Averages one set of gradients at each step; collective.

    Args:
        codec: The codec of large gradients of single precision.
        rank: Of PowerSGD's approximation.
        overlaps: Whether buckets may be sent before all gradients are complete.
        in_place: Whether compressed gradients, contiguous arrays then, get their means where they
            are.
        on_plan: Called with each new layout.
    """

    def __init__(
        self,
        reducer: Reducer,
        codec: Codec = Codec.NONE,
        rank: int = 4,
        *,
        overlaps: bool = False,
        in_place: bool = False,
        on_plan: Callable[[BucketLayout], None] = lambda plan: None,
    ) -> None:
        self.reducer, self.rank, self._transport = reducer, rank, reducer.transport
        size = self._transport.size
        self.codec = Codec.NONE if size == 1 else codec
        self.plan: BucketLayout | None = None
        self._message: SingleMessage | None = None
        self._message_bytes = 0.0
        self.tally = ExchangeTally()
        self.measures = False
        self.overlaps = overlaps and size > 1
        self._in_place = in_place
        self._sent_share = 2 * (size - 1) / size
        self._on_plan = on_plan
        self._storage = GradientStorage()
        self._squeezed: dict[int, Compressed] = {}
        self._findings: dict[int, NonfiniteFindings] = {}
        self._flight: PendingExchange | None = None
        self._resumed: dict[str, Any] | None = None

    def compression(self) -> dict[str, Any] | None:
        """Return what compression keeps from step to step; None without a compressed gradient."""
        if self.plan is None or not self._squeezed:
            return self._resumed
        return compression_state(self.plan, self._squeezed)

    def resume(self, compression: dict[str, Any] | None) -> None:
        """Continue with the compression of an earlier run, as soon as there is a layout."""
        self._resumed = compression

    def begin(self) -> None:
        """Start a backward pass, in which `ready` will be called."""
        self._transport.rest()
        self._flight = PendingExchange(self.plan)
        self.tally = ExchangeTally()  # for the buckets from now on

    def ready(self, number: int, gradient: Array) -> None:
        """Record that a gradient is complete; a bucket is sent after its last gradient."""
        flight, plan = self._flight, self.plan
        if flight is None:
            return
        flight.order.append(number)
        if plan is None or number not in plan.home:
            return
        if (gradient.shape, gradient.dtype.str[1:]) != plan.key[number]:
            self._flight = None if not flight.launched else flight
            return
        flight.arrays[number] = gradient
        flight.left[plan.home[number]] -= 1
        while flight.launched < len(plan.buckets) and not flight.left[flight.launched]:
            self._launch(plan, flight.launched, flight.arrays)
            flight.launched += 1

    def mean(
        self,
        names: Sequence[str],
        gradients: Sequence[Array | None],
        kept: Sequence[tuple[int, ...]],
        *,
        forgiving: bool = False,
    ) -> list[tuple[int, Array]]:
        """Replace gradients by their means over all ranks.

        Args:
            kept: Shapes of the parameters.
            forgiving: Whether non-finite numbers are allowed.

        Returns:
            Number and array of those that must replace a gradient.

        Raises:
            GradientError: Ranks do not agree, or a gradient is not finite; on all ranks.
        """
        flight, self._flight, attempts = self._flight, None, 2
        if (message := self._message) is not None:
            self._transport.rest()
            news = message.average(names, gradients)
            if message.seconds >= 0:
                self.tally.nbytes, self.tally.seconds = self._message_bytes, message.seconds
                if news is not None:
                    return news
                assert self.plan is not None
                if not self._has_changed(self.plan, gradients, {}, forgiving):
                    return message.give(gradients)
                self._agree(self.plan.shapes, flight.order if flight else [])
                flight, attempts = None, 1
        shapes = self._shapes(names, gradients, kept)
        if flight is None:  # else the pending exchange is its own
            self._transport.rest()
            self.tally.clear()
        if self.plan is None:
            self._agree(shapes, flight.order if flight else [])
            flight = None
        for _ in range(attempts):
            assert self.plan is not None
            is_same = shapes is self.plan.shapes or shapes == self.plan.shapes
            changed = not is_same or (flight is not None and self._is_stale(flight, gradients))
            news = self._attempt(self.plan, gradients, changed, flight, forgiving)
            if news is not None:
                return news
            self._agree(shapes, flight.order if flight else [])
            flight = None
        raise GradientError(
            "Gradients changed while they were exchanged", "exchange them once per step."
        )

    def _shapes(
        self,
        names: Sequence[str],
        gradients: Sequence[Array | None],
        kept: Sequence[tuple[int, ...]],
    ) -> list[GradientShape]:
        """Return the gradients' shapes; the layout's own list if they are as in the last step."""
        plan = self.plan
        if plan is not None and len(names) == len(gradients) == len(plan.shapes):
            for name, gradient, (before, shape, _), kind in zip(
                names, gradients, plan.shapes, plan.types, strict=True
            ):
                if gradient is None or gradient.shape != shape or name != before:
                    break
                if gradient.dtype != kind:
                    break
            else:
                return plan.shapes
        return [shape_of(*one) for one in zip(names, gradients, kept, strict=True)]

    def _is_stale(self, flight: PendingExchange, gradients: Sequence[Array | None]) -> bool:
        """Return whether a sent gradient has changed since, as after two backward passes."""
        if self.plan is None:
            return False
        left = [n for bucket in self.plan.buckets[: flight.launched] for n in bucket.slots]
        return any(flight.arrays[n] is not gradients[n] for n in left)

    def _attempt(
        self,
        plan: BucketLayout,
        gradients: Sequence[Any],
        changed: bool,
        flight: PendingExchange | None,
        forgiving: bool,
    ) -> list[tuple[int, Array]] | None:
        """Exchange all buckets; None if some rank's gradients changed."""
        flats: dict[int, list[Array]] = {}
        if plan.buckets:
            self._send(plan, gradients, changed, flight.launched if flight else 0, flats)
        factor = self._close(plan, gradients, changed)
        flawed = is_suspect(plan.closing.buffer)
        if flawed and self._has_changed(plan, gradients, flats, forgiving):
            return None
        news = scale_back(plan.small, factor, gradients)
        for number, bucket in enumerate(plan.buckets):
            in_place = bucket.squeezed and self._in_place
            places = bucket.places if bucket.fused else flats[number]
            if flawed and forgiving and bucket.squeezed:  # so that a scaler of losses sees it
                for one in [gradients[n] for n in bucket.slots] if in_place else places:
                    one.fill(numpy.nan)
            if not in_place:
                news += self._storage.results(bucket, places, gradients)
        return news

    def _has_changed(
        self,
        plan: BucketLayout,
        gradients: Sequence[Any],
        flats: dict[int, list[Array]],
        forgiving: bool,
    ) -> bool:
        """Return whether a sum is not finite because gradients changed; the same on all ranks.

        Raises:
            GradientError: They did not change, and have to be finite.
        """
        if plan.closing.buffer.item(0):
            plan.closing.buffer[0] = 0.0
            return True
        if not forgiving:
            transport = self._transport
            if error := find_nonfinite(transport, plan, self._findings, gradients, flats):
                raise error
        return False

    def _send(
        self,
        plan: BucketLayout,
        gradients: Sequence[Any],
        changed: bool,
        launched: int,
        flats: dict[int, list[Array]],
    ) -> None:
        """Exchange the buckets from number ``launched`` on, and wait for those before.

        Args:
            flats: Receives the arrays of each bucket that stays in place.
        """
        for number, bucket in enumerate(plan.buckets[launched:], launched):
            if bucket.fused and self.overlaps:
                self._launch(plan, number, None if changed else gradients)
            elif bucket.fused:
                self._exchange_fused(bucket, number, None if changed else gradients)
            else:
                flats[number] = self._flats(bucket, gradients, changed)
                self._exchange(bucket, number, flats[number])
        self._transport.rest()

    def _flats(self, bucket: Bucket, gradients: Sequence[Any], changed: bool) -> list[Array]:
        if changed:
            return [numpy.zeros(size, bucket.wire) for size in bucket.sizes]
        return self._storage.flats(bucket, gradients)

    def _launch(self, plan: BucketLayout, number: int, gradients: Any) -> None:
        bucket = plan.buckets[number]
        self._transport.worker.submit(lambda: self._exchange_fused(bucket, number, gradients))

    def _exchange_fused(self, bucket: Bucket, number: int, gradients: Any) -> None:
        if gradients is None:
            bucket.buffer.fill(0)
        elif number not in self._squeezed:  # a codec reads them where they are
            self._storage.load(bucket, gradients)
        self._exchange(bucket, number, [bucket.buffer], gradients)

    def _exchange(
        self, bucket: Bucket, number: int, flats: Sequence[Array], gradients: Any = None
    ) -> None:
        start = time.perf_counter()
        findings = self._findings[number] = NonfiniteFindings()
        squeezed = self._squeezed.get(number)
        if squeezed is None:
            self.tally.algorithms[self.reducer.mean(flats, findings)] = None
            self.tally.nbytes += self._sent_share * bucket.nbytes
        else:
            whole = None if gradients is None else [gradients[n] for n in bucket.slots]
            in_place = self._in_place and whole is not None
            if not squeezed.mean(
                flats[0], measure=self.measures, gradients=whole, in_place=in_place
            ):
                findings.note(self._transport.rank, -1)
            self.tally.nbytes += squeezed.nbytes
            self.tally.coding += squeezed.coding
            self.tally.error = max(self.tally.error, squeezed.error)
        self.tally.seconds += time.perf_counter() - start

    def _close(self, plan: BucketLayout, gradients: Sequence[Any], changed: bool) -> Array:
        """Exchange the small gradients and the header; return what makes means of the sums."""
        start, buffer = time.perf_counter(), plan.closing.buffer
        if changed:
            buffer.fill(0)
        else:
            for n, place in plan.small:
                place[...] = gradients[n]
        flawed = any(one.found for one in self._findings.values())
        buffer[0], buffer[1] = math.inf if changed else 0.0, math.inf if flawed else 0.0
        factor = self.reducer.total(buffer)
        self.tally.nbytes += self._sent_share * buffer.nbytes
        self.tally.seconds += time.perf_counter() - start
        return factor

    def _agree(self, shapes: list[GradientShape], order: Sequence[int]) -> None:
        """Exchange the shapes of all ranks, and make a layout; collective.

        Raises:
            GradientError: They differ.
        """
        comm = self._transport.comm
        gathered = comm.allgather((shapes, [*order]))
        if error := find_disagreement([one for one, _ in gathered]):
            raise error
        for shape in shapes:
            if shape.kind and shape.kind not in ("f2", "f4", "f8"):
                raise GradientError(
                    f"The gradient of {shape.name} is of type {numpy.dtype(shape.kind)}",
                    "only float16, float32 and float64 can be averaged.",
                )
        first = dict.fromkeys([*gathered[0][1], *range(len(shapes))])
        kept = self.plan is not None and self.plan.shapes == shapes
        if not kept:
            fused = self._fused_bytes(sum(4.0 * shape.size for shape in shapes))
            self.plan = BucketLayout(
                shapes, fused, [*first], self._is_squeezed, self._closing_bytes()
            )
            self._message = (
                SingleMessage(self.reducer, self.plan) if self.plan.is_one_message else None
            )
            self._message_bytes = self._sent_share * self.plan.nbytes
            self._squeezed = {
                number: self._squeeze(self.plan, bucket)
                for number, bucket in enumerate(self.plan.buckets)
                if bucket.squeezed
            }
            self._findings = {}
            self.tally.clear()
            self._on_plan(self.plan)
            if self._resumed is not None:
                restore_compression(self.plan, self._squeezed, self._resumed)
                self._resumed = None
            for squeezed in self._squeezed.values():
                squeezed.align()

    def _fused_bytes(self, nbytes: float) -> int:
        """Return the size of a bucket whose messages take far longer than their latencies.

        What a codec makes small goes together in fewer messages, as long as there are several.

        Args:
            nbytes: Of all gradients.
        """
        if not self.overlaps:
            return _WHOLE if self.codec is not Codec.NONE else 0
        link, size = self.reducer.link, self._transport.size
        least, most = BUCKET_BYTES
        sent = max(least, _SHARE_OF_LATENCY * size * link.latency * link.bandwidth)
        ratio = next(one.ratio for one in CODINGS if one.codec is self.codec)
        return int(min(most, max(sent, min(sent / ratio, nbytes / _LEAST_BUCKETS))))

    def _closing_bytes(self) -> int:
        """Return up to what size copying gradients is cheaper than a header on its own."""
        if self.overlaps or self.codec is not Codec.NONE or self.reducer.nodes == 1:
            return 0
        header = max(self.reducer.predict_seconds(4 * HEADER), _LEAST_HEADER_SECONDS)
        return int(min(_MOST_CLOSING_BYTES, header * _COPIED_BYTES_PER_SECOND))

    def _is_squeezed(self, shape: GradientShape) -> bool:
        if self.codec is Codec.NONE or shape.wire != "f4":
            return False
        return self.codec is not Codec.POWERSGD or is_worthwhile(shape.shape, self.rank)

    def _squeeze(self, plan: BucketLayout, bucket: Bucket) -> Compressed:
        shapes = [plan.shapes[n].shape for n in bucket.slots]
        return build_codec(self.codec, self._transport, shapes, self.rank, self._mean_whole)

    def _mean_whole(self, flat: Array) -> None:
        self.tally.algorithms[self.reducer.mean([flat])] = None


def compression_state(plan: BucketLayout, codecs: Mapping[int, Compressed]) -> dict[str, Any]:
    """Return the error feedback of each gradient, and what else the codecs of buckets keep."""
    lost: dict[str, Array] = {}
    others: dict[tuple[str, ...], dict[str, Any]] = {}
    for number, codec in codecs.items():
        bucket, state = plan.buckets[number], codec.state()
        names = _names(plan, bucket)
        if "lost" in state:
            pieces = _pieces(bucket, state.pop("lost"))
            lost |= {name: piece.copy() for name, piece in zip(names, pieces, strict=True)}
        others[names] = state
    return {"lost": lost, "codecs": others}


def restore_compression(
    plan: BucketLayout, codecs: Mapping[int, Compressed], saved: Mapping[str, Any]
) -> None:
    """Continue with what ``compression_state`` returned.

    The error feedback belongs to a gradient, so it fits every layout. The rest belongs to a
    bucket, and begins as new if there is no such bucket now.
    """
    for number, codec in codecs.items():
        bucket = plan.buckets[number]
        names = _names(plan, bucket)
        flat = numpy.zeros(bucket.size, "f4")
        for name, piece in zip(names, _pieces(bucket, flat), strict=True):
            found = saved["lost"].get(name)
            if found is not None and found.shape == piece.shape:
                numpy.copyto(piece, found)
        codec.restore({"lost": flat, **saved["codecs"].get(names, {})})


def _names(plan: BucketLayout, bucket: Bucket) -> tuple[str, ...]:
    return tuple(plan.shapes[n].name for n in bucket.slots)


def _pieces(bucket: Bucket, flat: Array) -> list[Array]:
    ends = itertools.accumulate(bucket.sizes, initial=0)
    return [flat[start:stop] for start, stop in itertools.pairwise(ends)]


class SingleMessage:
    """All gradients of a layout in the header's buffer, of single or half precision."""

    def __init__(self, reducer: Reducer, plan: BucketLayout) -> None:
        self.seconds = -1.0
        """Seconds of the exchange in the last call of ``average``; below 0 without one."""
        self._reducer, self._places = reducer, plan.small
        self._buffer = plan.closing.buffer
        places = dict(plan.small)
        self._rows = [
            # Only gradients without elements are not among the small ones.
            (one.name, one.shape, kind, places[n] if n in places else numpy.empty(one.shape, "f4"))
            for n, (one, kind) in enumerate(zip(plan.shapes, plan.types, strict=True))
        ]
        self._factor: Array = None

    def average(
        self, names: Sequence[str], gradients: Sequence[Array | None]
    ) -> list[tuple[int, Array]] | None:
        """Replace gradients by their means over the ranks.

        Without an exchange, if a gradient is not as in the layout.

        Returns:
            Number and array of each that must replace a gradient; None without an exchange, or if
            a sum is not finite.
        """
        self.seconds = -1.0
        if not self._is_loaded(names, gradients):
            return None
        start = time.perf_counter()
        self._factor = self._reducer.total(self._buffer)
        self.seconds = time.perf_counter() - start
        return None if is_suspect(self._buffer) else self.give(gradients)

    def give(self, gradients: Sequence[Any]) -> list[tuple[int, Array]]:
        """Replace the gradients of the last exchange, although a sum is not finite."""
        return scale_back(self._places, self._factor, gradients)

    def _is_loaded(self, names: Sequence[str], gradients: Sequence[Array | None]) -> bool:
        """Copy the gradients into the message; false if one is not as in the layout."""
        if not len(names) == len(gradients) == len(self._rows):
            return False
        for number, (name, shape, kind, place) in enumerate(self._rows):  # sooner than ``zip``
            gradient = gradients[number]
            if gradient is None or gradient.shape != shape or names[number] != name:
                return False
            if gradient.dtype != kind:
                return False
            place[...] = gradient
        return True
