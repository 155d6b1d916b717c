"""Whatever a node says, it is a checked value, or nothing, or a sentence about that node."""

from __future__ import annotations

import contextlib
import json
import math
from hashlib import sha256
from typing import get_args

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from tests.fuzz.words import JSON, NO_WIRE, RUN, TEXT, fuzzed, line
from tests.supervisor.agents import Talker
from workbench.cloud.hosts.probe import examine_hosts
from workbench.cluster.node_agent import agent_of
from workbench.core.messages import decode
from workbench.core.node import agent_protocol
from workbench.core.node.agent_protocol import Piece, SendOutputs
from workbench.core.node.frames import FrameKind, encode_frame
from workbench.core.node.launch_protocol import read_launched
from workbench.core.node.requirements import Environment, lacking, read_environment
from workbench.core.world.remote import Completed
from workbench.core.world.world import Host as WorldHost
from workbench.core.world.world import RankFact
from workbench.errors import MachineError
from workbench.node.interruption_notice import read_action, read_rebalance
from workbench.supervisor.data.output_agent import ContainedFolder, OutputAgent

EVENTS = get_args(agent_protocol.FROM_NODE)


@st.composite
def messages(draw: st.DrawFn) -> bytes:
    """Give what an agent sends: a message with values of any type."""
    kind = draw(st.sampled_from(EVENTS))
    values = draw(st.lists(JSON | st.binary(max_size=8), max_size=5))
    with contextlib.suppress(*NO_WIRE):
        return msgspec.msgpack.encode([kind.__name__, *values])
    return b""


FRAMES = st.builds(encode_frame, st.sampled_from(FrameKind), st.integers(0, 3), messages())
PIECES = st.builds(
    Piece,
    TEXT.map(lambda text: text.encode(errors="surrogatepass")),
    st.binary(max_size=5),
    st.integers(0, 9),
    st.sampled_from(["", sha256(b"a").hexdigest(), "x"]),
    st.sampled_from([RUN, RUN, "../x", ""]),
)


@fuzzed()
@given(st.lists(PIECES | messages(), max_size=6))
def test_an_agent_writes_nothing_outside(tmp_path_factory, said):
    top = tmp_path_factory.getbasetemp() / "fuzz"
    top.mkdir(exist_ok=True)
    before = {*top.parent.rglob("*")}
    talker = Talker("10.0.0.9", Piece(b"a", b"a", 0, "", RUN), *said)
    call = agent_of(talker).call(SendOutputs())
    agent = OutputAgent(
        "10.0.0.9", talker, call, str(top), lambda run, path: (ContainedFolder(top, run), path)
    )
    agent.runs.add(RUN)

    with contextlib.suppress(MachineError):
        agent.hear(lambda run, path: path)
    agent.drop()

    after = {*top.parent.rglob("*")} - before
    assert all(found.is_relative_to(top / RUN) for found in after)
    assert not [found for found in after if found.name.endswith(".coming")]


@fuzzed()
@given(messages() | st.binary())
def test_what_an_agent_sends_is_a_value_of_its_types_or_a_sentence(data):
    with contextlib.suppress(MachineError):
        message = agent_protocol.decode_from_node(data)
        if isinstance(message, agent_protocol.NodeFacts):
            assert math.isfinite(message.now)
            assert type(message.host) is str
            assert 1 <= message.slots <= agent_protocol.MOST_SLOTS
        if isinstance(message, agent_protocol.Gone):
            assert all(type(pid) is int for pid in message.pids)


@fuzzed()
@given(st.lists(st.binary(min_size=1, max_size=30) | FRAMES))
def test_any_bytes_of_an_agent_are_messages_or_end_it(pieces):
    talker = Talker("10.0.0.9")
    agent = agent_of(talker)
    call = agent.call(SendOutputs())

    for data in pieces:
        talker.started[0].hear(data)

    with contextlib.suppress(MachineError):
        call.take()
    assert bool(agent.lost) == (talker.started[0].status is not None)


@fuzzed()
@given(line("1") | st.text() | JSON.map(json.dumps))
def test_what_was_started_is_a_process_or_a_sentence(text):
    with contextlib.suppress(MachineError):
        assert read_launched(text).pid > 1


@fuzzed()
@given(st.binary() | JSON.map(lambda value: json.dumps(value).encode()))
def test_what_an_engine_says_of_itself_is_a_rank_or_a_sentence(data):
    with contextlib.suppress(MachineError):
        assert type(decode(RankFact, data).pid) is int


@fuzzed()
@given(
    st.fixed_dictionaries({"python": JSON | TEXT, "package": TEXT, "distributions": JSON}).map(
        json.dumps
    )
    | line("x")
)
def test_an_environment_is_one_or_none(text):
    with contextlib.suppress(ValueError):
        lacking(Environment("3", "", {"a": ("1", "")}), read_environment(text))


@fuzzed()
@given(st.text() | st.fixed_dictionaries({"action": JSON, "time": JSON}).map(json.dumps))
def test_what_a_place_announces_is_a_notice_or_nothing(text):
    for notice in (read_action(text), read_rebalance(text)):
        assert notice is None or math.isfinite(notice.at)


class Host:
    """A session with a host that answers everything with the same words."""

    is_open = True
    host = WorldHost("10.0.0.1", 1)

    def __init__(self, words: str) -> None:
        self._words = words

    def run(self, command: object, **_: object) -> Completed:
        return Completed(0, self._words, self._words)


@fuzzed()
@given(line("NodeFacts") | st.text() | TEXT.map(lambda text: f"workbench-login {text}"))
def test_a_host_that_is_examined_may_say_anything(words):
    (report,) = examine_hosts({"10.0.0.9": Host(words)})

    assert math.isfinite(report.skew)
