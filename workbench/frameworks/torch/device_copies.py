"""Copies of a GPU's tensors in host memory, which are made while the training goes on.

A tensor is copied on its GPU first, which takes a thousandth of the time of the way to the host.
That copy goes to pinned memory on a stream of its own, so the next step neither waits for it nor
changes it. Where the GPU has no room for it, the step waits for the copy to the host.
"""

from __future__ import annotations

import contextlib
from typing import Any

import torch


class DeviceCopies:
    """Copies that have begun, and may not have come.

    Args:
        cuda: Streams and events of GPUs.
    """

    def __init__(self, cuda: Any = torch.cuda) -> None:
        self._cuda = cuda
        self._streams: dict[Any, Any] = {}
        self._events: dict[Any, Any] = {}
        self._has_room = True

    def begin(self, value: Any, spare: Any) -> Any:
        """Return a tensor of the host that will have the content of a GPU's.

        Args:
            spare: An earlier copy, which is overwritten if it fits, or None.
        """
        kept = self._keep(value.detach())
        host = spare if fits(spare, kept) else new_host_tensor(kept.shape, kept.dtype, pinned=True)
        device = kept.device
        if device not in self._streams:
            self._streams[device] = self._cuda.Stream(device)
        stream, present = self._streams[device], self._cuda.current_stream(device)
        stream.wait_stream(present)
        with self._cuda.stream(stream):
            host.copy_(kept, non_blocking=True)
        if self._has_room:
            kept.record_stream(stream)  # else its memory might be given away before it is read
        else:
            present.wait_stream(stream)
        self._events[device] = stream.record_event()
        return host

    def wait(self) -> None:
        """Wait until all copies have come; called in any thread."""
        for event in [*self._events.values()]:
            event.synchronize()

    def _keep(self, value: Any) -> Any:
        """Return a copy on the GPU, or the tensor itself where there is no room."""
        if self._has_room:
            try:
                return value.clone(memory_format=torch.contiguous_format)
            except torch.OutOfMemoryError:
                self._has_room = False
        return value


COPIES = DeviceCopies()


def new_host_tensor(shape: Any, dtype: Any, *, pinned: bool) -> Any:
    """Return a new tensor of the host, pinned if that is asked for and the system allows it."""
    if pinned:
        with contextlib.suppress(RuntimeError):
            return torch.empty(shape, dtype=dtype, pin_memory=True)
    return torch.zeros(shape, dtype=dtype)


def fits(spare: Any, value: Any) -> bool:
    """Return whether an earlier copy can be overwritten by a tensor."""
    return isinstance(spare, torch.Tensor) and (spare.shape, spare.dtype, spare.layout) == (
        value.shape,
        value.dtype,
        value.layout,
    )
