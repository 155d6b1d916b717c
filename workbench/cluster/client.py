"""An ipyparallel client that reads data from engines, and never unpickles it.

An engine may be on a compromised machine. ipyparallel unpickles what engines return, which runs any
code that they choose. Here a result is JSON, in a separate buffer beside ipyparallel's own pickled
frame, and that frame is never read.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Any

import ipyparallel as ipp
import zmq
from ipyparallel.serialize import serialize_object

from workbench.core.quote import one_line, quote_value, shorten_text
from workbench.errors import ClusterError

log = logging.getLogger("workbench.supervisor")

# jupyter_client's MAX_BYTES is 1,024: longer data is sent beside the pickle, unchanged.
APART_NBYTES = 2_048
MOST_NBYTES = 1 << 20
MOST_MESSAGE_NBYTES = 16 << 20
MOST_CHARACTERS = 20_000
MOST_WARNINGS = 20


def connect_client(cluster: ipp.Cluster, seconds: float) -> DataClient:
    """Return a client of a cluster whose controller has started."""
    found = asyncio.run(cluster.controller.get_connection_info())
    return DataClient(found["client"], seconds)


class DataClient(ipp.Client):
    """A client whose results are bytes from an engine; at least ``APART_NBYTES`` of them."""

    invalid_replies = 0

    def __init__(self, connection: dict[str, Any], timeout: float) -> None:
        if connection.get("unpack") != "json":
            raise ClusterError(
                "ipyparallel is set up to unpack messages by "
                f"{quote_value(connection.get('unpack'))}, which may run what a node sends",
                "take Session.packer out of its configuration.",
            )
        context = zmq.Context()
        context.MAXMSGSIZE = MOST_MESSAGE_NBYTES
        super().__init__(connection, context=context, timeout=timeout)

    def engines(self) -> set[tuple[int, str]]:
        """Return the engines' ids, each with its name, which no other engine ever has."""
        # The client's thread changes it at any moment; a dictionary's own copy is made at once.
        return {*dict.copy(self._engines).items()}

    def close(self, linger: int | None = None) -> None:
        """Close the sockets."""
        super().close(linger=linger)
        self._context.destroy(linger=0)

    def _setup_streams(self) -> None:
        # The output of ranks comes by other channels; it is not read here.
        self._iopub_socket.setsockopt(zmq.UNSUBSCRIBE, b"")
        super()._setup_streams()

    def _dispatch_iopub(self, parts: Any) -> None:
        """Ignore the message."""

    def _dispatch_reply(self, parts: Any) -> None:
        try:
            _, frames = self.session.feed_identities(parts, copy=False)
            message = self.session.deserialize(frames, content=True, copy=False)
            number = message["parent_header"]["msg_id"]
            if number not in self.outstanding:
                return
            self._handle_apply_reply(_filter_reply(number, message))
        except Exception as error:  # noqa: BLE001  # an exception here would stop the client
            self.invalid_replies += 1
            if self.invalid_replies <= MOST_WARNINGS:
                log.warning("an engine sent an invalid reply: %s", one_line(repr(error)))


def _filter_reply(number: str, message: dict[str, Any]) -> dict[str, Any]:
    """Return a reply with only the fields that a correct engine sends."""
    metadata, content = (
        value if isinstance(value, dict) else {}
        for value in (message["metadata"], message["content"])
    )
    status = content.get("status")
    buffers: list[Any] = []
    if status == "ok":
        data = _take_apart_buffer(message["buffers"])
        if data is None:
            content = {"ename": "ClusterError", "evalue": "the engine's answer is not valid data"}
            status = "error"
        else:
            buffers = serialize_object(data)
    checked: dict[str, Any] = {"status": status}
    if status not in ("ok", "aborted"):
        checked = {
            "status": "error",
            "ename": shorten_text(str(content.get("ename", "")), 100),
            "evalue": shorten_text(str(content.get("evalue", "")), MOST_CHARACTERS),
            "traceback": _lines(content.get("traceback", ())),
        }
    engine = metadata.get("engine")
    return {
        "header": {},
        "parent_header": {"msg_id": number},
        "metadata": {"engine": engine} if isinstance(engine, str) else {},
        "content": checked,
        "buffers": buffers,
    }


def _take_apart_buffer(buffers: Sequence[Any]) -> bytes | None:
    """Return the buffer beside the pickle; None unless there is one of an acceptable size."""
    if len(buffers) != 2 or not APART_NBYTES <= len(buffers[1]) <= MOST_NBYTES:
        return None
    return bytes(buffers[1])


def _lines(traceback: Any) -> list[str]:
    lines = traceback if isinstance(traceback, list) else []
    return [shorten_text("\n".join(map(str, lines[:1_000])), MOST_CHARACTERS)]
