"""A folder's files arrive complete on a node, whatever the node answers."""

from __future__ import annotations

import os
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar, cast

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.supervisor.agents import Over, Said, Talker
from workbench.cloud.hosts.local_session import LocalSession
from workbench.core.fleet.model import FleetWish
from workbench.core.node.agent_protocol import Damaged, FetchProgress, Needed, TakeFrom, Trouble
from workbench.core.node.staging import CHUNK_NBYTES, MOST_AHEAD_NBYTES
from workbench.core.world.remote import RemoteProcess
from workbench.core.world.world import Host
from workbench.errors import InputError, MachineError
from workbench.supervisor.data.source import Source
from workbench.supervisor.data.staging import (
    DataTransfer,
    Giver,
    Staging,
    bucket_environment,
    data_place,
    fetch,
)

WISH = FleetWish("hosts")


class Node:
    """A session with a node that is a process of this machine.

    Args:
        change: What becomes of the bytes on the way; None cuts the session.
    """

    host = Host("10.0.0.9", 1)
    all: ClassVar[list[Node]] = []

    def __init__(
        self,
        change: Callable[[bytes], bytes | None] = lambda data: data,
        home: Path = Path("/nonexistent"),
    ) -> None:
        self._session = LocalSession(self.host, Path.cwd(), {"HOME": str(home)})
        self._change = change
        self.run = self._session.run
        self.nbytes = 0
        self.program = ("-m", "workbench.node.agent")
        self.all.append(self)

    @property
    def is_open(self) -> bool:
        return self._session.is_open

    @property
    def is_silent(self) -> bool:
        return not self.is_open

    def start(self, command: Sequence[str]) -> RemoteProcess:
        process = self._session.start([sys.executable, *self.program])
        write = process.write

        def changed(data: bytes) -> None:
            self.nbytes += len(data)
            found = self._change(data)
            if found is not None:
                write(found)
                return
            self._session._closed = True
            process.end()

        process.write = changed
        return process

    def close(self) -> None:
        self._session.close()


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    """Close the sessions of a test."""
    yield
    while Node.all:
        Node.all.pop().close()


def fill(folder: Path, **files: bytes) -> Path:
    for name, content in files.items():
        path = folder / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return folder


def send(node: Node, folder: Path, place: Path, said: list[str] | None = None) -> None:
    say = (said if said is not None else []).append
    DataTransfer(node, folder, Source(folder).entries(), str(place), say).send()
    node.close()


def files(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def cut_after(nbytes: int) -> Callable[[bytes], bytes | None]:
    left = nbytes

    def change(data: bytes) -> bytes | None:
        nonlocal left
        left -= len(data)
        return None if left < 0 else data

    return change


def test_a_node_gets_all_files_and_the_second_time_none(tmp_path):
    folder = fill(tmp_path / "from", a=b"1", deep__er__b=b"22" * 9000, empty=b"")
    said: list[str] = []

    send(Node(), folder, tmp_path / "to", said)
    again = Node()
    send(again, folder, tmp_path / "to")

    assert files(tmp_path / "to") == files(folder)
    assert again.nbytes < 1000
    assert "Data: the node checks which files it has." in said
    assert (tmp_path / "to" / "a").stat().st_mode & 0o777 == 0o600
    assert (tmp_path / ".to").stat().st_mode & 0o777 == 0o700


def test_only_what_has_changed_is_sent_and_what_is_gone_is_removed(tmp_path):
    folder = fill(tmp_path / "from", big=os.urandom(2_000_000), a=b"1", old__x=b"2")
    send(Node(), folder, tmp_path / "to")
    (tmp_path / "to" / "unpacked").write_bytes(b"by the script")
    fill(folder, a=b"another")
    (folder / "old" / "x").unlink()

    node = Node()
    send(node, folder, tmp_path / "to")

    assert node.nbytes < 10_000
    assert files(tmp_path / "to") == {**files(folder), "unpacked": b"by the script"}
    assert not (tmp_path / "to" / "old").exists()


def test_a_large_file_continues_where_it_was_cut(tmp_path):
    folder = fill(tmp_path / "from", big=os.urandom(16_000_000))
    with pytest.raises(MachineError, match="lost while the data was staged; wait until"):
        send(Node(cut_after(12_000_000)), folder, tmp_path / "to")
    assert files(tmp_path / "to") == {}

    node = Node()
    send(node, folder, tmp_path / "to")

    assert files(tmp_path / "to") == files(folder)
    # What is on its way may be lost with the session, and pieces at its ends.
    assert node.nbytes < 4_000_000 + MOST_AHEAD_NBYTES + 4 * CHUNK_NBYTES


def test_what_another_node_does_not_give_is_sent_from_here(tmp_path):
    folder = fill(tmp_path / "from", a=b"x" * 100_000, b=b"")
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    said: list[str] = []

    transfer = DataTransfer(
        Node(), folder, Source(folder).entries(), str(tmp_path / "to"), said.append
    )
    transfer.send(TakeFrom(("127.0.0.1",), port, "0" * 64))

    assert files(tmp_path / "to") == files(folder)


@pytest.mark.parametrize("is_open", [True, False])
def test_why_a_node_gives_no_data_is_logged_once_if_it_is_there(
    is_open: bool, caplog: pytest.LogCaptureFixture
) -> None:
    sent = list[Any]()
    transfer = cast(DataTransfer, SimpleNamespace(entries=(), send=lambda *of: sent.append(of)))
    node = Talker(f"node-{is_open}", Over(why="KeyError('GiveData')"))
    node.is_open = is_open

    for _ in range(2):
        Giver().stage(node, transfer, "data", lambda _: None)

    assert sent == [(), ()]
    why = "KeyError('GiveData'); it gives no data to other nodes, which get all from here."
    assert [one.message for one in caplog.records] == [f"node-True: {why}"] * is_open


def test_what_another_node_gives_wrong_is_sent_from_here(tmp_path):
    folder = fill(tmp_path / "from", a=b"x" * 100_000, b=b"y" * 100_000)
    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=give_noise, args=(server,), daemon=True).start()
        transfer = DataTransfer(
            Node(), folder, Source(folder).entries(), str(tmp_path / "to"), lambda _: None
        )
        transfer.send(TakeFrom(("127.0.0.1",), server.getsockname()[1], "0" * 64))

    assert files(tmp_path / "to") == files(folder)


def give_noise(server: socket.socket) -> None:
    """Answer one node with what it has not asked for, and half of that."""
    taker, _ = server.accept()
    with taker, taker.makefile("rb") as asked:
        asked.readline()
        asked.readline()
        taker.sendall(b"z" * 150_000)


@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.lists(st.integers(0, 400_000), min_size=1, max_size=8),
    st.lists(st.integers(0, 900_000), max_size=3),
)
def test_however_often_it_is_cut_all_files_come_in_the_end(tmp_path_factory, sizes, cuts):
    top = tmp_path_factory.mktemp("cut")
    folder = fill(top / "from", **{f"f{n}": os.urandom(size) for n, size in enumerate(sizes)})

    for nbytes in cuts:
        try:
            send(Node(cut_after(nbytes)), folder, top / "to")
        except MachineError:
            assert set(files(top / "to").items()) <= set(files(folder).items())
    send(Node(), folder, top / "to")

    assert files(top / "to") == files(folder)


def test_a_file_that_comes_damaged_is_sent_again(tmp_path):
    folder = fill(tmp_path / "from", a=b"x" * 100_000, b=b"y" * 100_000)
    spoilt = []

    def spoil(data: bytes) -> bytes:
        if b"yyyy" in data and not spoilt:
            spoilt.append(True)
            return data.replace(b"yyyy", b"yyzy", 1)
        return data

    send(Node(spoil), folder, tmp_path / "to")

    assert spoilt
    assert files(tmp_path / "to") == files(folder)


def test_a_file_that_always_comes_damaged_is_reported(tmp_path):
    folder = fill(tmp_path / "from", a=b"x" * 1000)

    with pytest.raises(MachineError, match=r"from/a came to 10\.0\.0\.9 damaged 4 times"):
        send(Node(lambda data: data.replace(b"xxxx", b"xyxx", 1)), folder, tmp_path / "to")

    assert files(tmp_path / "to") == {}


def test_a_part_that_lies_damaged_on_the_node_is_sent_again(tmp_path):
    folder = fill(tmp_path / "from", big=os.urandom(4_000_000))
    with pytest.raises(MachineError):
        send(Node(cut_after(3_000_000)), folder, tmp_path / "to")
    (part,) = (tmp_path / ".to" / "parts").iterdir()
    part.write_bytes(b"\0" + part.read_bytes()[1:])

    send(Node(), folder, tmp_path / "to")

    assert files(tmp_path / "to") == files(folder)


def test_a_file_that_was_changed_on_the_node_comes_again(tmp_path):
    folder = fill(tmp_path / "from", a=b"right", b=b"other")
    send(Node(), folder, tmp_path / "to")
    (tmp_path / "to" / "a").write_bytes(b"wrong")

    send(Node(), folder, tmp_path / "to")

    assert files(tmp_path / "to") == files(folder)


def test_a_folder_may_become_a_file_and_a_file_a_folder(tmp_path):
    folder = fill(tmp_path / "from", a=b"1", b__c=b"2")
    send(Node(), folder, tmp_path / "to")
    (folder / "a").unlink()
    (folder / "b" / "c").unlink()
    (folder / "b").rmdir()
    fill(folder, a__d=b"3", b=b"4")

    send(Node(), folder, tmp_path / "to")

    assert files(tmp_path / "to") == {"a/d": b"3", "b": b"4"}


def test_a_link_on_the_node_leads_no_file_out_of_the_folder(tmp_path):
    folder = fill(tmp_path / "from", sub__a=b"1")
    (tmp_path / "to").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "to" / "sub").symlink_to(tmp_path / "elsewhere")

    with pytest.raises(MachineError, match=r"10\.0\.0\.9: .*sub leads out of .*remove that link"):
        send(Node(), folder, tmp_path / "to")

    assert files(tmp_path / "elsewhere") == {}


def test_links_in_the_folder_are_followed_but_not_in_circles(tmp_path):
    folder = fill(tmp_path / "from", a=b"1")
    fill(tmp_path / "other", x=b"2")
    (folder / "linked").symlink_to(tmp_path / "other")
    (folder / "b").symlink_to("a")

    assert [entry.path for entry in Source(folder).entries()] == ["a", "b", "linked/x"]

    (folder / "circle").symlink_to(folder)
    with pytest.raises(InputError, match="circle is a link to a folder that it lies in"):
        Source(folder).entries()


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda folder: None, "There is no file in "),
        (lambda folder: os.mkfifo(folder / "pipe"), "pipe is neither a file nor a folder"),
        (lambda folder: (folder / "gone").symlink_to("nowhere"), "gone of the data cannot be read"),
        (lambda folder: folder.rmdir(), "from of the data cannot be read (No such file"),
    ],
)
def test_what_cannot_be_sent_is_refused_in_one_sentence(tmp_path, make, sentence):
    folder = tmp_path / "from"
    folder.mkdir()
    make(folder)

    with pytest.raises(InputError) as refused:
        Source(folder).entries()

    assert sentence in str(refused.value)
    assert str(refused.value).count("\n") == 0


def test_the_source_is_read_once_and_then_only_what_changed(tmp_path):
    folder = fill(tmp_path / "from", a=b"1" * 1000, b=b"2" * 1000)
    source = Source(folder)
    before = source.entries()
    fill(folder, b=b"3" * 500)

    after = source.entries()

    assert source._hashed == 2500
    assert before[0] == after[0]
    assert before[1] != after[1]


def test_many_files_cost_no_round_trip_each(tmp_path):
    folder = fill(tmp_path / "from", **{f"d{n % 7}__{n}": b"%d" % n for n in range(3000)})
    began = time.monotonic()

    send(Node(), folder, tmp_path / "to")

    assert files(tmp_path / "to") == files(folder)
    assert time.monotonic() - began < 20  # 3,000 commands take minutes


def test_a_node_without_this_environment_says_so(tmp_path):
    folder = fill(tmp_path / "from", a=b"1")
    node = Node()
    node.program = ("-c", "import nothing")

    with pytest.raises(MachineError, match=r"its agent ended.*this environment is there"):
        send(node, folder, tmp_path / "to")


def test_a_node_with_too_little_room_is_reported_before_anything_is_sent(tmp_path, monkeypatch):
    folder = tmp_path / "from"
    folder.mkdir()
    with (folder / "vast").open("wb") as file:
        file.truncate(1 << 20)
    entries = Source(folder).entries()
    vast = [type(entry)(entry.path, 1 << 50, entry.digest) for entry in entries]

    with pytest.raises(MachineError, match="are free; free some space there"):
        DataTransfer(Node(), folder, vast, str(tmp_path / "to"), lambda sentence: None).send()


def test_the_script_runs_after_the_data_and_finds_it(tmp_path):
    folder = fill(tmp_path / "from", a=b"1")
    place = data_place("c", FleetWish("hosts", data=str(folder)), Node())
    wish = FleetWish("hosts", data=str(folder), prepare='ls "$WORKBENCH_DATA" > ~/seen; pwd')
    node = Node(home=tmp_path)

    Staging("c").prepare(node, wish, lambda sentence: None)

    assert (tmp_path / "seen").read_text() == "a\n"
    assert place.startswith("~/workbench-data/c-")


def test_a_script_that_fails_is_reported_with_what_it_said_last(tmp_path):
    wish = FleetWish("hosts", prepare="echo first; echo no such thing >&2; exit 3")

    with pytest.raises(MachineError, match=r"status 3 on 10.0.0.9 \(no such thing\); correct it"):
        Staging("c").prepare(Node(home=tmp_path), wish, lambda sentence: None)


def test_on_this_machine_the_folder_itself_is_used(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    folder = fill(tmp_path / "from", a=b"1")
    session = LocalSession(Host("localhost", 1), tmp_path)
    rehearsal = FleetWish("rehearsal", data=str(folder))
    hosts = FleetWish("hosts", data=str(folder))

    Staging("c").prepare(session, rehearsal, lambda sentence: None)
    assert not (tmp_path / "home").exists()
    Staging("c").prepare(session, hosts, lambda sentence: None)

    # Ranks elsewhere get a path under their home, which leads to it here.
    assert data_place("c", rehearsal, None) == data_place("c", hosts, session) == str(folder)
    assert Path(data_place("c", hosts, Node())).expanduser().samefile(folder)


def test_what_the_node_refuses_is_one_sentence_with_its_address(tmp_path):
    node = Talker("10.0.0.9", Over(why="There is no bucket of that name; make it"))

    with pytest.raises(MachineError, match=r"^10\.0\.0\.9: There is no bucket of that name; make"):
        fetch(node, "s3://b/p", "~/there", lambda sentence: None)


def test_an_endpoint_with_a_secret_in_it_is_not_passed_to_a_node(monkeypatch) -> None:
    for url in ("https://key:word@s3.example.org", "https://s3.example.org/?token=word"):
        monkeypatch.setenv("AWS_ENDPOINT_URL", url)

        with pytest.raises(MachineError, match="AWS_ACCESS_KEY_ID") as refused:
            bucket_environment(cast("Any", None))

        assert "word@" not in str(refused.value)
        assert "=word" not in str(refused.value)


NODE = "10.0.0.66"


def wire(name: str, *values: object) -> bytes:
    return msgspec.msgpack.encode([name, *values])


@pytest.mark.parametrize(
    "said",
    [
        [wire("Needed", [[-1, 0]])],
        [Needed(((7, 0),))],
        [wire("Needed", [[0, -1]])],
        [Needed(((0, 10**9),))],
        [Needed(((0, 0),) * 3)],
        [wire("Needed", [["a", "b"]])],
        [wire("Needed")],
        [wire("Needed", 3)],
        [Needed(((0, 0),)), Needed(()), Damaged((5,))],
        [Needed(((0, 0),)), Needed(()), wire("Damaged", ["x"])],
        [Over(why="x" * 100_000)],
        [b"noise"],
    ],
    ids=str,
)
def test_what_a_node_asks_for_is_a_file_of_the_data(tmp_path, said: Sequence[Said]) -> None:
    (tmp_path / "a").write_bytes(b"1")
    entries = Source(tmp_path).entries()

    with pytest.raises(MachineError, match=f"^{NODE}: ") as refused:
        DataTransfer(Talker(NODE, *said), tmp_path, entries, "~/there", lambda _: None).send()

    assert len(str(refused.value)) < 500


@pytest.mark.parametrize(
    "said",
    [
        wire("FetchProgress", 1, 2),
        wire("FetchProgress", "a", 1, 2),
        wire("FetchProgress", 1, 2, None),
        FetchProgress(1, 2, float("inf")),
        FetchProgress(-1, 2, 1.0),
    ],
    ids=str,
)
def test_a_nodes_progress_is_three_numbers(said: Said) -> None:
    with pytest.raises(MachineError, match=f"^{NODE}: "):
        fetch(Talker(NODE, said), "s3://b/p", "~/there", lambda _: None)


def test_unexpected_messages_of_a_node_are_ignored() -> None:
    said: list[str] = []

    fetch(
        Talker(NODE, Trouble("x"), FetchProgress(1, 2, 3.0), Over()), "s3://b/p", "~/a", said.append
    )

    assert said[1:] == ["Data: 1 of 2 B, 50 %, 3 B/s."]
