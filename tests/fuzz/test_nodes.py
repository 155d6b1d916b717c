"""Whatever a node says, it is a checked value, or nothing, or a sentence about that node."""

from __future__ import annotations

import contextlib
import json
import math
from dataclasses import fields
from typing import get_args

from hypothesis import given
from hypothesis import strategies as st

from tests.fuzz.words import JSON, RUN, TEXT, fuzzed, line
from tests.supervisor.agents import Talker
from workbench.cloud.hosts.check import examine_hosts
from workbench.core.node import agent_protocol
from workbench.core.node.launch_protocol import read_launched
from workbench.core.node.output_protocol import (
    CLAIM,
    ENDED,
    FILE,
    FLUSHED,
    PIECE,
    SENT,
    TROUBLE,
    WHOLE,
    read_message,
)
from workbench.core.node.requirements import Environment, lacking, read_environment
from workbench.core.node.staging import Entry
from workbench.core.node.transfer_protocol import NEED, read_line, read_needed
from workbench.core.node.validation import built, parsed
from workbench.core.world.remote import Completed
from workbench.core.world.world import Host as WorldHost
from workbench.core.world.world import RankFact
from workbench.errors import MachineError
from workbench.node.interruption_notice import read_action, read_rebalance
from workbench.supervisor.data.output_agent import OutputAgent
from workbench.supervisor.data.safe_paths import Below

OUTPUT = (CLAIM, SENT, TROUBLE, ENDED, FLUSHED, FILE, PIECE, WHOLE)
EVENTS = (*get_args(agent_protocol.Event), *get_args(agent_protocol.Request))


@st.composite
def messages(draw: st.DrawFn) -> str:
    """Give lines of an agent, with their fields or others, and values of any type."""
    kind = draw(st.sampled_from(EVENTS))
    names = st.sampled_from([field.name for field in fields(kind)] or [""]) | TEXT
    return json.dumps([kind.__name__, draw(st.dictionaries(names, JSON, max_size=6))])


@fuzzed()
@given(line(*OUTPUT))
def test_an_agents_line_is_a_value_or_a_sentence(text):
    with contextlib.suppress(MachineError):
        said = read_message(text)
        assert said is None or type(said).__module__ == "workbench.core.node.output_protocol"


@fuzzed()
@given(st.lists(line(*OUTPUT) | st.sampled_from([FILE, PIECE, WHOLE]), max_size=6), TEXT)
def test_an_agent_writes_nothing_outside(tmp_path_factory, lines, path):
    top = tmp_path_factory.getbasetemp() / "fuzz"
    top.mkdir(exist_ok=True)
    before = {*top.parent.rglob("*")}
    talker = Talker("10.0.0.9", json.dumps([FILE, RUN, path]), json.dumps([PIECE, "YQ=="]), *lines)
    agent = OutputAgent("10.0.0.9", talker, talker.start(()), str(top), runs={RUN})
    agent.receive(lambda run, path: (Below(top, run), path))

    with contextlib.suppress(MachineError):
        agent.hear(lambda run, path: path)
    agent.receiving.drop()

    after = {*top.parent.rglob("*")} - before
    assert all(found.is_relative_to(top / RUN) for found in after)
    assert not [found for found in after if found.name.endswith(".coming")]


@fuzzed()
@given(messages() | line("NodeFacts"))
def test_an_agents_line_is_a_value_of_its_types_or_nothing(text):
    event = agent_protocol.read_event(text)
    agent_protocol.read_request(text)

    if isinstance(event, agent_protocol.NodeFacts):
        assert math.isfinite(event.now)
        assert type(event.host) is str
        assert 1 <= event.slots <= agent_protocol.MOST_SLOTS
    if isinstance(event, agent_protocol.Gone):
        assert all(type(pid) is int for pid in event.pids)


@fuzzed()
@given(st.lists(JSON, max_size=3), line(NEED))
def test_what_a_node_wants_is_there(values, text):
    entries = [Entry("a", 10, "x"), Entry("b", 0, "y")]
    read_line(text)

    with contextlib.suppress(MachineError):
        for number, offset in read_needed(values, entries):
            assert 0 <= offset <= entries[number].nbytes


@fuzzed()
@given(line("1") | st.text() | JSON.map(json.dumps))
def test_what_was_started_is_a_process_or_a_sentence(text):
    with contextlib.suppress(MachineError):
        assert read_launched(text).pid > 1


@fuzzed()
@given(st.binary() | JSON.map(lambda value: json.dumps(value).encode()))
def test_what_an_engine_says_of_itself_is_a_rank_or_a_sentence(data):
    with contextlib.suppress(MachineError):
        assert type(built(RankFact, parsed(data)).pid) is int


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
@given(messages() | st.text() | TEXT.map(lambda text: f"workbench-login {text}"))
def test_a_host_that_is_examined_may_say_anything(words):
    (report,) = examine_hosts({"10.0.0.9": Host(words)})

    assert math.isfinite(report.skew)
