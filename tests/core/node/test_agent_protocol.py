"""Every message between supervisor and agent is decoded as it was sent; others are refused."""

from __future__ import annotations

import msgspec
import pytest

from workbench.core.node.agent_protocol import (
    AgentMessage,
    FetchProgress,
    FileEnd,
    Gone,
    KeyWanted,
    NodeFacts,
    Notice,
    Piece,
    RankEnded,
    ReadFile,
    RenewLease,
    Signal,
    StageData,
    Trouble,
    Watch,
    WatchNotices,
    decode_entries,
    decode_from_node,
    decode_path,
    decode_request,
    decode_to_node,
    encode_entries,
    encode_message,
    encode_path,
    facts_line,
    read_facts,
)
from workbench.core.node.staging import StagingEntry
from workbench.errors import ProtocolError

RUN = "261121-120000-abcd"
REQUESTS = [
    ReadFile(b"crash-1-0.txt", 10, True),
    RenewLease("one", 300.0, "/var/lib/x"),
    WatchNotices(),
    StageData(b"~/data"),
]
TO_NODE = [Watch((1, 2)), Signal((3,), 9), Piece(b"a/\xff", bytes(range(256)), 7, "d1", RUN)]
EVENTS = [
    NodeFacts("node1", gpus=("Tesla M60",), versions=(("numpy", "2.3"),)),
    Gone((4, 5)),
    FileEnd(b"two\nlines \xfc"),
    Notice("terminate", 1758183720.0),
    KeyWanted(RUN, b"a/b"),
    Trouble("no room"),
]


def wire(name: str, *values: object) -> bytes:
    return msgspec.msgpack.encode([name, *values])


@pytest.mark.parametrize("message", REQUESTS, ids=repr)
def test_a_request_is_the_same_after_the_wire(message: AgentMessage) -> None:
    assert decode_request(encode_message(message)) == message
    with pytest.raises(ProtocolError):
        decode_from_node(encode_message(message))


@pytest.mark.parametrize("message", TO_NODE, ids=lambda one: type(one).__name__)
def test_what_the_supervisor_says_is_the_same_after_the_wire(message: AgentMessage) -> None:
    assert decode_to_node(encode_message(message)) == message


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: type(event).__name__)
def test_what_a_node_says_is_the_same_after_the_wire(event: AgentMessage) -> None:
    assert decode_from_node(encode_message(event)) == event


@pytest.mark.parametrize(
    "data",
    [b"", b"Traceback", wire("Gone"), wire("Gone", 3), wire("Gone", [1], 2), wire("Watch", [1])],
)
def test_what_is_no_message_of_a_node_is_refused(data: bytes) -> None:
    with pytest.raises(ProtocolError, match=r"^it(s| )"):
        decode_from_node(data)


@pytest.mark.parametrize("status", [200, -1, 4991, 65535, 2**40, 127, 0.0, True, None, "0"])
def test_a_status_with_which_no_process_ends_is_refused(status: object) -> None:
    with pytest.raises(ProtocolError):
        decode_from_node(wire("RankEnded", 1234, status))


@pytest.mark.parametrize("status", [0, 256, 0xFF00, 9, 11, 0x80 | 6, 64])
def test_a_status_with_which_a_process_ends_is_taken(status: int) -> None:
    assert decode_from_node(encode_message(RankEnded(1234, status))) == RankEnded(1234, status)


@pytest.mark.parametrize("pid", [0, -1, 2**22 + 1, 2**63, 7.0, True])
def test_an_id_that_no_process_has_is_refused(pid: object) -> None:
    with pytest.raises(ProtocolError):
        decode_from_node(wire("RankEnded", pid, 0))
    with pytest.raises(ProtocolError):
        decode_from_node(wire("Gone", [7, pid]))


@pytest.mark.parametrize("run", ["../../x", "261121-120000-ABCD", f"{RUN}\n", "", 7])
def test_a_run_that_cannot_be_is_refused(run: object) -> None:
    with pytest.raises(ProtocolError):
        decode_from_node(wire("KeyWanted", run, b"a"))


@pytest.mark.parametrize("rate", [float("nan"), float("inf"), -1.0, 1e300])
def test_a_progress_that_cannot_be_is_refused(rate: float) -> None:
    with pytest.raises(ProtocolError):
        decode_from_node(encode_message(FetchProgress(1, 2, rate)))


def test_a_path_that_is_longer_than_any_is_refused() -> None:
    with pytest.raises(ProtocolError):
        decode_from_node(encode_message(KeyWanted(RUN, b"x" * 4_097)))


def test_file_names_need_not_be_text() -> None:
    path = b"a/\xff\xfe".decode(errors="surrogateescape")
    entries = (StagingEntry(path, 7, "d1"), StagingEntry("b", 0, "d2"))

    assert decode_path(encode_path(path)) == path
    assert tuple(decode_entries(encode_entries(entries))) == entries


def test_facts_are_found_among_what_a_login_prints() -> None:
    facts = NodeFacts("a", gpus=("x",))

    assert read_facts(f"Welcome\n[]\n{facts_line(facts)}bye") == facts
    assert read_facts("Welcome\n{}\n" + "[" * 5_000) is None


def test_slots_are_gpus_or_else_cores() -> None:
    assert NodeFacts("a", cores=8, gpus=("x", "x")).slots == 2
    assert NodeFacts("a", cores=8).slots == 8
