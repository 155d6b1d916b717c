"""Each message of each protocol, made from its declaration, is a bounded value or is refused.

No message is listed here: they are what the modules declare. One that no decoder takes fails, and
so does a protocol that is not among these.
"""

from __future__ import annotations

import contextlib
import json
import math
import random
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec
import pytest

from tests.fuzz.test_near_misses import exchanged
from tests.fuzz.words import NO_WIRE, RUN, SEED, text_of, wire_of
from tests.supervisor.agents import Over, Talker
from tests.weekly import examples
from workbench.cloud.rented.leases import NodeLeases
from workbench.cluster.node_forks import RemoteForks
from workbench.cluster.process_monitor import RemoteProcessMonitor
from workbench.core.messages import MOST, BaseMessage
from workbench.core.node import agent_protocol, launch_protocol
from workbench.core.node.staging import StagingEntry
from workbench.core.recovery.snapshots import SnapshotManifest, decode_manifest, encode_manifest
from workbench.core.run import rank_protocol
from workbench.core.run.rank_protocol import Sample, Samples
from workbench.core.world.world import Host
from workbench.errors import InputError, MachineError
from workbench.pages import requests
from workbench.supervisor.data.staging import DataTransfer

PACKAGE = Path(requests.__file__).parents[1]
TIMES = examples(10_000)
# What a message may have, often enough for each to get past its decoder; then what none may have.
WORDS = (RUN, "0f" * 32) * 8 + ("failed", "finished", "terminate", "output", "a/b", "YQ==") * 2
COUNTS = (1, 2, 3, 9, 256) * 4
AMOUNTS = (0.0, 0.5, 3.0, 1e9) * 4
ODD_WORDS = ("", "x" * 300, "x/" * 3_000, "9" * 30, "\0", "..")
ODD_COUNTS = (-1, 0, 2**22, 2**53, 2**53 + 1, 2**63, 2**70)
ODD_AMOUNTS = (-1.0, 1e11, 1e18, 1e300, math.inf, math.nan)


@dataclass(frozen=True)
class Protocol:
    """What one side may say, and what takes it.

    Args:
        messages: A union of their classes.
        text_of: Encodes one of them.
        read: Decodes a text; returns None for one that is no message.
        refused: What it raises for one that is invalid.
    """

    messages: Any
    text_of: Callable[[Any], str]
    read: Callable[[str], Any]
    refused: tuple[type[Exception], ...] = ()


def text_of_body(body: Any) -> str:
    return msgspec.json.encode(body).decode()


def bodies(model: type[requests.Request]) -> Protocol:
    return Protocol(
        model,
        text_of_body,
        lambda text: requests.read_body(model, text.encode()),
        (InputError,),
    )


DECLARED = {
    "agent, asked": Protocol(
        agent_protocol.REQUESTS,
        text_of,
        lambda text: agent_protocol.decode_request(wire_of(text)),
        (MachineError, *NO_WIRE),
    ),
    "agent, to it": Protocol(
        agent_protocol.TO_NODE,
        text_of,
        lambda text: agent_protocol.decode_to_node(wire_of(text)),
        (MachineError, *NO_WIRE),
    ),
    "agent": Protocol(
        agent_protocol.FROM_NODE,
        text_of,
        lambda text: agent_protocol.decode_from_node(wire_of(text)),
        (MachineError, *NO_WIRE),
    ),
    "launch": Protocol(
        launch_protocol.Launched,
        launch_protocol.launched_text,
        launch_protocol.read_launched,
        (MachineError,),
    ),
    "rank": Protocol(
        rank_protocol.Message,
        lambda message: rank_protocol.encode(message).decode(),
        lambda text: rank_protocol.decode_message(text.encode(errors="surrogatepass")),
        (MachineError,),
    ),
    "rank, to it": Protocol(
        rank_protocol.Command,
        lambda message: rank_protocol.encode(message).decode(),
        lambda text: rank_protocol.decode_command(text.encode(errors="surrogatepass")),
        (MachineError,),
    ),
    "manifest": Protocol(SnapshotManifest, encode_manifest, decode_manifest, (ValueError,)),
    "page": Protocol(
        requests.PageMessage, text_of_body, requests.read_page_message, (InputError,)
    ),
    **{
        model.__name__: bodies(model)
        for model in requests.REQUESTS
        if model not in get_args(requests.PageMessage)
    },
}  # fmt: skip
MODULES = (
    agent_protocol, launch_protocol, rank_protocol, requests,
)  # fmt: skip
OURS_ALONE = {
    agent_protocol.AgentMessage: "the base of the others",
    agent_protocol.AgentRequest: "likewise",
    agent_protocol.ToNode: "likewise",
    agent_protocol.FromNode: "likewise",
    launch_protocol.Launch: "sent by this machine, which the node trusts",
    requests.Request: "the base of the others",
}


def members(union: Any) -> tuple[Any, ...]:
    return get_args(union) or (union,)


def inside(hint: Any) -> set[Any]:
    """Return the messages and dataclasses that a declaration leads to."""
    if not is_declared(hint):
        return {one for part in get_args(hint) for one in inside(part)}
    hints = get_type_hints(hint, include_extras=True)
    return {hint} | {one for name in names_of(hint) for one in inside(hints[name])}


def is_declared(kind: Any) -> bool:
    return isinstance(kind, type) and (is_dataclass(kind) or issubclass(kind, BaseMessage))


def names_of(kind: Any) -> tuple[str, ...]:
    found: tuple[str, ...] | None = getattr(kind, "__struct_fields__", None)
    return tuple(one.name for one in fields(kind)) if found is None else found


def made(hint: Any, rng: random.Random) -> Any:
    """Return a value of a declared type, which may be out of its bounds."""
    origin, parts = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return made(parts[0], rng)
    if origin is Literal:
        return rng.choice(parts)
    if origin in (Union, types.UnionType):
        return made(rng.choice(parts), rng)
    if isinstance(hint, type) and issubclass(hint, Enum):
        return rng.choice([*hint])
    if origin is tuple and parts[-1] is not ...:
        return tuple(made(part, rng) for part in parts)
    if origin in (tuple, Sequence):
        return tuple(made(parts[0], rng) for _ in range(rng.randrange(3)))
    if origin is Mapping:
        return {made(parts[0], rng): made(parts[1], rng) for _ in range(rng.randrange(2))}
    if hint is Samples:
        return Samples.of(made(tuple[Sample, ...], rng))
    if is_declared(hint) or hasattr(hint, "_fields"):
        hints = get_type_hints(hint, include_extras=True)
        names = getattr(hint, "_fields", None) or names_of(hint)
        return hint(**{name: made(hints[name], rng) for name in names})
    simple = {
        bool: (True, False), int: COUNTS + ODD_COUNTS[: rng.randrange(8)],
        float: AMOUNTS + ODD_AMOUNTS[: rng.randrange(7)],
        str: WORDS + ODD_WORDS[: rng.randrange(7)], bytes: (b"a",),
        type(None): (None,), Any: (None, 1, "x"),
    }  # fmt: skip
    return rng.choice(simple[hint])


def is_sound(value: Any) -> bool:
    """Return whether a decoded value can be used without another look: each number is bounded."""
    if is_declared(type(value)):
        return all(is_sound(getattr(value, name)) for name in names_of(value))
    if isinstance(value, Samples):
        return is_sound([*value.iterations, *value.times])  # what was measured may be infinite
    if isinstance(value, dict):
        return is_sound([*value, *value.values()])
    if isinstance(value, tuple | list):
        return all(map(is_sound, value))
    if type(value) in (int, float):
        return 0 <= value <= MOST
    return len(value) <= 1 << 20 if isinstance(value, str | bytes) else True


def texts(protocol: Protocol, rng: random.Random, times: int = TIMES) -> list[str]:
    """Return messages of a protocol, half of them with a value exchanged."""
    found = []
    kinds = members(protocol.messages)
    while len(found) < times:
        try:
            # Some encoders refuse what their decoders would, too.
            text = protocol.text_of(made(kinds[len(found) % len(kinds)], rng))
        except (OverflowError, ValueError, TypeError):
            continue
        if rng.random() < 0.5:
            text = json.dumps(exchanged(json.loads(text), rng))
        found.append(text)
    return found


def taken(read: Callable[[str], Any], found: list[str], refused: tuple[Any, ...]) -> list[Any]:
    """Return what a decoder makes of texts, but for what it refuses by an error of its own."""
    values, sentences = [], [""]
    for text in found:
        try:
            values.append(read(text))
        except refused as error:
            sentences.append(str(error))
    assert max(map(len, sentences)) < 1_000
    return [value for value in values if value is not None]


@pytest.mark.parametrize("name", DECLARED)
def test_each_declared_message_is_decoded_to_bounded_values_or_refused(name: str) -> None:
    protocol = DECLARED[name]

    found = taken(protocol.read, texts(protocol, random.Random(f"{SEED} {name}")), protocol.refused)

    assert [value for value in found if not is_sound(value)] == []
    assert {type(value) for value in found} == {*members(protocol.messages)}


def test_what_a_node_says_of_data_is_taken_or_refused(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"1234567890")
    (tmp_path / "b").write_bytes(b"")
    entries = [StagingEntry("a", 10, "x"), StagingEntry("b", 0, "y")]
    rng = random.Random(SEED)
    kinds = (agent_protocol.Needed, agent_protocol.Damaged, agent_protocol.FetchProgress)

    for _ in range(TIMES // 10):
        said = [made(rng.choice(kinds), rng) for _ in range(rng.randrange(6))]
        words = [wire for one in said if (wire := wired(one)) is not None]
        transfer = DataTransfer(Talker("n", *words, Over()), tmp_path, entries, "", lambda _: None)
        with contextlib.suppress(MachineError):
            transfer.send()
        assert len(transfer._needed) <= len(entries)


def wired(message: Any) -> bytes | None:
    """Return a message as it is sent; None if it cannot be."""
    return packed(text_of(message))


def test_every_message_of_a_protocol_is_tried_here() -> None:
    declared = {
        one
        for module in MODULES
        for one in vars(module).values()
        if is_declared(one) and one.__module__ == module.__name__
    }
    unions = [protocol.messages for protocol in DECLARED.values()]
    walked = {found for union in unions for one in members(union) for found in inside(one)}

    assert declared - walked - OURS_ALONE.keys() == set()


def test_every_protocol_is_tried_here() -> None:
    found = {path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*_protocol.py")}
    known = {Path(module.__file__ or "").relative_to(PACKAGE).as_posix() for module in MODULES}

    assert found <= known


def test_no_word_of_an_agent_harms_who_hears_it() -> None:
    rng = random.Random(SEED)
    events = [wire for text in texts(DECLARED["agent"], rng) if (wire := packed(text))]
    host = Talker("10.0.0.9")
    monitor, forks = RemoteProcessMonitor(host), RemoteForks(host, "ranks")
    now = [0.0]
    leases = NodeLeases("c", lambda: 0.0, clock=lambda: now[0])
    leases.begin("i-1", host)

    for number in range(0, len(events), 50):
        host.started[-1].say_to(object, *events[number : number + 50])
        for hear in (lambda: monitor.is_alive(7), forks.hear, leases.turn):
            hear()
        now[0] += 1.0

    assert len(host.started) > 1
    assert host.host == Host("10.0.0.9", 1)
    assert all(0 <= at <= 1e11 for at in leases.turn().values())


def packed(text: str) -> bytes | None:
    """Return what an agent sends of a message that was changed; None if nothing can be sent."""
    with contextlib.suppress(*NO_WIRE):
        return wire_of(text)
    return None
