"""Near misses of what each decoder takes: a value or an error of its own, each time.

Random words rarely get past a decoder's first check; these begin as a message that is right.
"""

from __future__ import annotations

import contextlib
import json
import random
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.fuzz.words import NO_WIRE, SEED, text_of, wire_of
from tests.weekly import examples
from workbench.cloud.rented.ssh_keys import HostKey, KeyRing
from workbench.cluster.multihost import WorldRecord, read_records, write_records
from workbench.core.messages import decode
from workbench.core.node import agent_protocol
from workbench.core.node.launch_protocol import read_launched
from workbench.core.node.requirements import read_environment
from workbench.core.options.jobfile import parse_job
from workbench.core.performance.bandwidth import (
    BandwidthSurvey,
    Exchange,
    Measurement,
    Pair,
    Rate,
    measurement_json,
    measurement_of,
)
from workbench.core.run.rank_protocol import (
    Batch,
    Chunk,
    Ending,
    EventReport,
    Progress,
    Sample,
    SnapshotSaved,
    decode_message,
    encode,
)
from workbench.core.supervisor.heartbeat import read_heartbeat
from workbench.core.world.hostfile import parse_hosts
from workbench.core.world.world import Host, RankFact, World
from workbench.errors import InputError, MachineError, WorkbenchError
from workbench.node.interruption_notice import read_action
from workbench.pages.requests import SizeRequest, read_body, read_page_message
from workbench.store.paths import HOST_KEYS_NAME

TIMES = examples(10_000)
FILE_TIMES = examples(1_000)
NASTY: tuple[Any, ...] = (
    None, True, -1, 0, 2**53, 2**70, 1e308, float("nan"), float("inf"), "", "\0", "\ud800",
    "../../x", "/x", "x" * 300, [], {}, [[[]]], {"": None},
)  # fmt: skip
SIGNS = ("", "\0", '"', "9" * 20, "[", "é")
RUN = "261121-120000-abcd"
BATCH = Batch(
    RUN, 1, 3, (Sample("loss", 1, 1.0, 0.5),), (Chunk("stdout", 1.0, "x"),), Progress(1),
    Ending("failed", 1, "e", "t"), (EventReport(SnapshotSaved(1, 0.1), 1.0, 1),),
)  # fmt: skip
MEASURED = Measurement(
    BandwidthSurvey(
        1.0, ("a", "b"), (Pair("a", "b", 1e-4, 1e8),), (Exchange(8, 1.0, 2, "MPI", "ring"),)
    ),
    2, 1.0, (Rate("a", "disk write", 1e8),), ("GPUs, for there are none.",),
)  # fmt: skip
RANK = {"generation": 1, "rank": 0, "host": "a", "pid": 7, "engine": 0, "versions": [["a", "1"]]}
JOB = """script = "train.py"
ranks = 2
grace = "5s"
parameters = { lr = 0.1 }
"""


@dataclass(frozen=True)
class Decoder:
    """What takes a text, one that it takes, and the errors that it may raise."""

    read: Callable[[str], object]
    text: str
    errors: tuple[type[Exception], ...] = ()


def read_agent(text: str) -> object:
    return agent_protocol.decode_from_node(wire_of(text))


REFUSED = (MachineError, *NO_WIRE)
DECODERS = {
    "rank": Decoder(
        lambda text: decode_message(_bytes(text)), encode(BATCH).decode(), (MachineError,)
    ),
    "output": Decoder(read_agent, text_of(agent_protocol.KeyWanted(RUN, b"a/b")), REFUSED),
    "piece": Decoder(read_agent, text_of(agent_protocol.Piece(b"a", b"1", 0, "d1", RUN)), REFUSED),
    "agent": Decoder(read_agent, text_of(agent_protocol.NodeFacts("a")), REFUSED),
    "agent's end": Decoder(read_agent, text_of(agent_protocol.Gone((7, 8))), REFUSED),
    "facts": Decoder(
        agent_protocol.read_facts, agent_protocol.facts_line(agent_protocol.NodeFacts("a"))
    ),
    "staging": Decoder(read_agent, text_of(agent_protocol.Needed(((1, 0),))), REFUSED),
    "launched": Decoder(read_launched, json.dumps([7, "/x"]), (MachineError,)),
    "engine": Decoder(lambda text: decode(RankFact, text), json.dumps(RANK), (MachineError,)),
    "environment": Decoder(
        read_environment,
        json.dumps({"python": "3.11", "package": "0", "distributions": {"a": ["1", ""]}}),
        (ValueError,),
    ),
    "notice": Decoder(read_action, json.dumps({"action": "stop", "time": "2026-01-01T00:00:00Z"})),
    "page": Decoder(read_page_message, json.dumps({"type": "ack", "version": 3}), (InputError,)),
    "body": Decoder(
        lambda text: read_body(SizeRequest, _bytes(text)), json.dumps({"ranks": 2}), (InputError,)
    ),
    "job file": Decoder(lambda text: parse_job(text, "job.toml"), JOB, (InputError,)),
    "host file": Decoder(parse_hosts, "10.0.0.1 slots=2\nme@a.b:22 cpu=1\n", (InputError,)),
    "measurement": Decoder(measurement_of, measurement_json(MEASURED), (MachineError,)),
    "heartbeat": Decoder(read_heartbeat, json.dumps({"pid": 7})),
}


@pytest.mark.parametrize("name", DECODERS)
def test_a_near_miss_is_a_value_or_an_error_of_its_own(name: str) -> None:
    decoder = DECODERS[name]
    rng = random.Random(f"{SEED} {name}")
    taken = 0

    for _ in range(TIMES):
        text = near_miss(decoder.text, rng)
        try:
            decoder.read(text)
        except decoder.errors:
            continue
        except Exception as error:
            raise AssertionError(f"{text!r} raised {error!r}") from error
        taken += 1

    assert taken, "no input got past the first check"


def test_a_measurement_that_is_taken_has_the_types_that_it_declares() -> None:
    rng = random.Random(SEED)

    for _ in range(TIMES):
        with contextlib.suppress(MachineError):
            found = measurement_of(near_miss(measurement_json(MEASURED), rng))
            assert type(found.survey.time) is float
            assert all(type(rate.bandwidth) is float for rate in found.rates)


def test_what_a_predecessor_wrote_of_worlds_is_read_or_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "worlds.json"
    write_records(path, [WorldRecord(1, World((Host("a", 1),), 1), "x", 7)])

    for text in near_misses(path.read_text(), "worlds"):
        path.write_bytes(_bytes(text))
        read_records(path)


def test_host_keys_that_make_no_sense_end_no_supervisor(tmp_path: Path) -> None:
    KeyRing(tmp_path).note(HostKey("i-1", "10.0.0.4", "ssh-ed25519 AAAA", shown=True))
    path = tmp_path / HOST_KEYS_NAME

    for text in near_misses(path.read_text(), "keys"):
        path.write_bytes(_bytes(text))
        with contextlib.suppress(WorkbenchError):
            KeyRing(tmp_path).lines()


def near_misses(text: str, name: str) -> Iterator[str]:
    """Give some near misses of a file's text, the same each time."""
    rng = random.Random(f"{SEED} {name}")
    return (near_miss(text, rng) for _ in range(FILE_TIMES))


def near_miss(text: str, rng: random.Random) -> str:
    """Return ``text`` with one or two values, or a few characters, exchanged."""
    with contextlib.suppress(ValueError):
        if rng.random() < 0.7:
            value = json.loads(text)
            for _ in range(rng.randint(1, 2)):
                value = exchanged(value, rng)
            return json.dumps(value)
    characters = [*text]
    for _ in range(rng.randint(1, 4)):
        place = rng.randrange(len(characters) + 1)
        characters[place : place + rng.randint(0, 3)] = rng.choice(SIGNS)
    return "".join(characters)


def exchanged(value: Any, rng: random.Random) -> Any:
    """Return ``value`` with one value in it exchanged, added or left out."""
    places = [*_places(value)]
    if not places or rng.random() < 0.1:
        return deepcopy(rng.choice(NASTY))
    inside, key = rng.choice(places)
    if rng.random() < 0.2:
        del inside[key]
    else:
        inside[key] = deepcopy(rng.choice(NASTY))
    return value


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    keys: Any = ()
    if isinstance(value, dict | list):
        keys = value if isinstance(value, dict) else range(len(value))
    for key in keys:
        yield value, key
        yield from _places(value[key])


def _bytes(text: str) -> bytes:
    return text.encode(errors="surrogatepass")
