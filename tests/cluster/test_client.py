"""The supervisor reads data from engines, and never a pickle."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import pytest
import zmq
from hypothesis import given, seed, settings
from hypothesis import strategies as st
from jupyter_client.session import Session

from tests.cluster.conftest import PRELUDE, Bench
from tests.weekly import examples
from workbench.cluster.client import APART_NBYTES, MOST_CHARACTERS, DataClient
from workbench.cluster.mpi_cluster import MpiCluster

CELL = Path(__file__).with_name("hostile_engine.py").read_text(encoding="utf-8")
ASKED = "a-request"


class Listener:
    """What a client's handlers need, without a network."""

    def __init__(self) -> None:
        self.session = Session(key=b"key")
        self.outstanding = {ASKED}
        self.taken: list[dict] = []
        self.invalid_replies = 0

    def _handle_apply_reply(self, message: dict) -> None:
        self.taken.append(message)
        self.outstanding.remove(message["parent_header"]["msg_id"])

    def hear(self, content: object, metadata: object, *buffers: bytes, asked: object = ASKED):
        """Have a reply of an engine come as it does, and return what was made of it."""
        message = self.session.msg("apply_reply", parent={"msg_id": asked})
        message |= {"content": json.dumps(content).encode(), "metadata": metadata}
        parts = self.session.serialize(message)
        frames = [zmq.Frame(part) for part in [*parts, *buffers]]
        DataClient._dispatch_reply(self, frames)
        return self.taken[-1] if self.taken else None


class Evil:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


@pytest.mark.mpi
@pytest.mark.parametrize("what", ["nothing", "data"])
def test_an_engines_pickle_is_not_unpickled(tmp_path, monkeypatch, what):
    monkeypatch.setenv("WRITES", str(tmp_path / "written"))
    monkeypatch.setenv("WITH", what)
    cluster = MpiCluster(tmp_path)
    cluster.open({})
    bench = Bench(cluster, tmp_path, PRELUDE)
    try:
        generation = bench.ready(1)
        bench.batches_until_ended(bench.submit(generation, CELL), 1)

        cluster.recover(generation)
        recovered = bench.until(lambda: cluster.recovered(generation))

        assert not (tmp_path / "written").exists()
        assert recovered is (what == "data")
    finally:
        cluster.close()


@pytest.mark.parametrize("sent", [0, 1, 3])
def test_what_is_no_data_is_an_error_in_words(tmp_path, sent):
    evil = pickle.dumps(Evil(tmp_path / "written"))

    taken = Listener().hear({"status": "ok"}, {"engine": "x"}, *[evil] * sent)

    assert taken["content"]["ename"] == "ClusterError"
    assert not (tmp_path / "written").exists()


def test_data_comes_as_it_was_sent_and_its_frame_is_not_looked_into():
    data = json.dumps([1]).ljust(APART_NBYTES).encode()

    taken = Listener().hear({"status": "ok"}, {"is_coalescing": True}, b"no pickle at all", data)

    assert data in [bytes(part) for part in taken["buffers"]]
    assert taken["metadata"] == {}


def test_an_error_comes_in_words_and_not_too_many():
    content = {"status": "error", "ename": 7, "evalue": "x" * 10**6, "traceback": ["y" * 10**6] * 3}

    checked = Listener().hear(content, {})["content"]

    assert checked["ename"] == "7"
    assert len(checked["evalue"]) == MOST_CHARACTERS + 1
    assert len("".join(checked["traceback"])) == MOST_CHARACTERS + 1


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.integers()
    | st.text(max_size=9),
    lambda inside: st.lists(inside, max_size=4) | st.dictionaries(st.text(max_size=5), inside),
    max_leaves=8,
)
CONTENT = JSON | st.fixed_dictionaries(
    {"status": JSON | st.sampled_from(["ok", "error", "aborted", "resubmitted"])},
    optional={"ename": JSON, "evalue": JSON, "traceback": JSON, "engine_info": JSON},
)


@seed(11)
@settings(max_examples=examples(2_000), deadline=None, print_blob=True)
@given(CONTENT, JSON | st.fixed_dictionaries({"engine": JSON}), st.lists(st.binary()), JSON)
def test_no_reply_of_an_engine_ends_who_hears_it(content, metadata, buffers, asked):
    listener = Listener()

    listener.hear(content, metadata, *buffers, asked=asked)
    listener.hear(content, metadata, *buffers)

    assert len(listener.taken) == 1
