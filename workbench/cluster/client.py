"""An ipyparallel client that reads data from engines, and never unpickles.

An engine may be on a machine that somebody else has taken over. ipyparallel unpickles what engines
return, which runs whatever they want run. Here a result is JSON, in a buffer of its own beside the
pickle that ipyparallel makes of nothing but its frame, and that frame is never looked into.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Any

import ipyparallel as ipp
import zmq
from ipyparallel.serialize import serialize_object

from workbench.core.quote import one_line, shortened, shown
from workbench.errors import ClusterError

log = logging.getLogger("workbench.supervisor")

# jupyter_client's MAX_BYTES is 1,024: what is longer is sent beside the pickle, as it is.
APART_NBYTES = 2_048
MOST_NBYTES = 1 << 20
MOST_MESSAGE_NBYTES = 16 << 20
MOST_CHARACTERS = 20_000
MOST_TOLD = 20


def connected(cluster: ipp.Cluster, seconds: float) -> DataClient:
    """Return a client of a cluster whose controller has been started."""
    found = asyncio.run(cluster.controller.get_connection_info())
    return DataClient(found["client"], seconds)


class DataClient(ipp.Client):
    """Its results are bytes that an engine has returned; at least ``APART_NBYTES`` of them."""

    told = 0

    def __init__(self, connection: dict[str, Any], timeout: float) -> None:
        if connection.get("unpack") != "json":
            raise ClusterError(
                f"ipyparallel is set up to unpack messages by {shown(connection.get('unpack'))}, "
                "which may run what a node sends",
                "take Session.packer out of its configuration.",
            )
        context = zmq.Context()
        context.MAXMSGSIZE = MOST_MESSAGE_NBYTES
        super().__init__(connection, context=context, timeout=timeout)

    def close(self, linger: int | None = None) -> None:
        """Close the sockets."""
        super().close(linger=linger)
        self._context.destroy(linger=0)

    def _setup_streams(self) -> None:
        # What ranks print comes by other ways; nobody here would read it.
        self._iopub_socket.setsockopt(zmq.UNSUBSCRIBE, b"")
        super()._setup_streams()

    def _dispatch_iopub(self, parts: Any) -> None:
        """Take in nothing."""

    def _dispatch_reply(self, parts: Any) -> None:
        try:
            _, frames = self.session.feed_identities(parts, copy=False)
            message = self.session.deserialize(frames, content=True, copy=False)
            number = message["parent_header"]["msg_id"]
            if number not in self.outstanding:
                return
            self._handle_apply_reply(_sound(number, message))
        except Exception as error:  # noqa: BLE001  # an exception here would leave the client deaf
            self.told += 1
            if self.told <= MOST_TOLD:
                log.warning("an engine sent what is no answer: %s", one_line(repr(error)))


def _sound(number: str, message: dict[str, Any]) -> dict[str, Any]:
    """Return a reply as an engine of good will would have sent it: nothing else is in it."""
    metadata, content = (
        value if isinstance(value, dict) else {}
        for value in (message["metadata"], message["content"])
    )
    status = content.get("status")
    buffers: list[Any] = []
    if status == "ok":
        data = _apart(message["buffers"])
        if data is None:
            content = {"ename": "ClusterError", "evalue": "the engine's answer is no data of ours"}
            status = "error"
        else:
            buffers = serialize_object(data)
    said: dict[str, Any] = {"status": status}
    if status not in ("ok", "aborted"):
        said = {
            "status": "error",
            "ename": shortened(str(content.get("ename", "")), 100),
            "evalue": shortened(str(content.get("evalue", "")), MOST_CHARACTERS),
            "traceback": _lines(content.get("traceback", ())),
        }
    engine = metadata.get("engine")
    return {
        "header": {},
        "parent_header": {"msg_id": number},
        "metadata": {"engine": engine} if isinstance(engine, str) else {},
        "content": said,
        "buffers": buffers,
    }


def _apart(buffers: Sequence[Any]) -> bytes | None:
    """Return what was sent beside the pickle; None where that is not one piece of fair size."""
    if len(buffers) != 2 or not APART_NBYTES <= len(buffers[1]) <= MOST_NBYTES:
        return None
    return bytes(buffers[1])


def _lines(traceback: Any) -> list[str]:
    lines = traceback if isinstance(traceback, list) else []
    return [shortened("\n".join(map(str, lines[:1_000])), MOST_CHARACTERS)]
