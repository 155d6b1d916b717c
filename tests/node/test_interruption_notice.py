"""EC2's notices are reported once each, and its service is polled only on request."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.cloud.conftest import log_in
from tests.rehearsal.ec2 import imds
from tests.waiting import until
from workbench.cluster.node_agent import agent_of
from workbench.core.node.agent_protocol import AskFacts, Notice, WatchNotices
from workbench.node.interruption_notice import (
    MetadataService,
    read_action,
    read_rebalance,
    usual_place,
    watch_notices,
)
from workbench.node.stream import Cancelled

ACTION = "meta-data/spot/instance-action"
REBALANCE = "meta-data/events/recommendations/rebalance"
TAKEN = json.dumps({"action": "terminate", "time": "2026-11-21T10:00:00Z"})
ADVISED = json.dumps({"noticeTime": "2026-11-21T09:50:00Z"})
TERMINATE = Notice("terminate", 1795255200.0)
ADVICE = Notice("rebalance", 1795254600.0)


class Metadata:
    """A metadata service on this machine's loopback; what it says is in a file."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self.asked: list[str] = []
        kind = type("Asked", (imds.Metadata,), {"file": file, "tokens": set()})
        kind.log_request = lambda asked, *_: self.asked.append(f"{asked.command} {asked.path}")
        self.tokens: set[str] = kind.tokens
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), kind)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        self.say()

    def say(self, **known: str) -> None:
        new = self._file.with_suffix(".new")
        new.write_text(
            json.dumps({{"action": ACTION, "advice": REBALANCE}[k]: known[k] for k in known})
        )
        os.replace(new, self._file)


@pytest.fixture
def metadata(tmp_path: Path) -> Iterator[Metadata]:
    service = Metadata(tmp_path / "metadata.json")
    thread = threading.Thread(target=service.server.serve_forever, args=(0.05,))
    thread.start()
    yield service
    service.server.shutdown()
    service.server.server_close()
    thread.join()


@pytest.mark.parametrize("kind", ["terminate", "stop", "hibernate"])
def test_an_action_is_read_with_its_moment(kind):
    text = json.dumps({"action": kind, "time": "2026-11-21T10:00:00Z"})

    assert read_action(text) == Notice(kind, TERMINATE.at)


def test_a_recommendation_is_read_with_its_moment():
    assert read_rebalance(ADVISED) == ADVICE
    assert read_rebalance(json.dumps({"noticeTime": "2026-11-21T09:50:00"})) == ADVICE


@pytest.mark.parametrize(
    "text",
    ["", "<html>", "[]", "null", "3", "{}", '{"action":"terminate"}', '{"action":"x","time":"now"}',
     '{"action":"none","time":"2026-11-21T10:00:00Z"}', '{"noticeTime":4}'],
)  # fmt: skip
def test_what_is_no_notice_is_none(text):
    assert read_action(text) is None
    assert read_rebalance(text) is None


def test_the_service_is_asked_with_a_token_that_is_kept(metadata):
    service = MetadataService(metadata.url)
    assert service.notices() == ()
    metadata.say(action=TAKEN, advice=ADVISED)

    assert service.notices() == (TERMINATE, ADVICE)

    assert [a for a in metadata.asked if a.startswith("PUT")] == ["PUT /latest/api/token"]


def test_a_token_that_is_no_longer_good_is_renewed(metadata):
    service = MetadataService(metadata.url)
    metadata.say(action=TAKEN)
    service.notices()
    metadata.tokens.clear()

    service.notices()

    assert service.notices() == (TERMINATE,)


def test_proxies_are_not_asked(metadata, monkeypatch):
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    metadata.say(action=TAKEN)

    assert MetadataService(metadata.url).notices() == (TERMINATE,)


def test_where_there_is_no_service_there_are_no_notices():
    assert MetadataService("http://127.0.0.1:9").notices() == ()


class Listener:
    """A call for notices that ends after some polls."""

    def __init__(self, *polls: Callable[[], object]) -> None:
        self._polls = [*polls]
        self.heard: list[Notice] = []

    def post(self, notice: Notice) -> None:
        self.heard.append(notice)

    def wait(self, seconds: float) -> bool:
        if self._polls:
            self._polls.pop(0)()
            return False
        return True

    def take(self) -> None:
        raise Cancelled


def hear(url: str, *polls: Callable[[], object]) -> list[Notice]:
    listener = Listener(*polls)
    with pytest.raises(Cancelled):
        watch_notices(listener, url)
    return listener.heard


def test_each_notice_is_sent_once_and_again_to_the_next_that_asks(metadata):
    polls = (
        lambda: metadata.say(action=TAKEN),
        lambda: metadata.say(action=TAKEN, advice=ADVISED),
        lambda: None,
    )

    assert hear(metadata.url, *polls) == [TERMINATE, ADVICE]
    assert hear(metadata.url) == [TERMINATE, ADVICE]


def test_a_service_that_does_not_answer_is_polled_again(metadata):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        assert hear(f"http://127.0.0.1:{silent.getsockname()[1]}", lambda: None) == []
    assert hear("", lambda: None) == []
    assert metadata.asked == []


def test_the_switch_that_forbids_aws_to_ask_is_obeyed():
    assert usual_place({"AWS_EC2_METADATA_DISABLED": "true"}) == ""
    assert usual_place({"AWS_EC2_METADATA_DISABLED": "false"}) == "http://169.254.169.254"
    assert usual_place({}) == "http://169.254.169.254"


@pytest.mark.root
def test_an_agent_tells_what_its_nodes_own_service_says(hosts):
    host = hosts.start(imds=imds.ADDRESS)
    file = host.folder / "metadata.json"
    file.write_text(json.dumps({ACTION: TAKEN}))
    service = host.popen(sys.executable, "-I", imds.__file__, str(file))
    until(lambda: host.listens(imds.PORT), what="its metadata service")
    with contextlib.closing(log_in(hosts, len(hosts) - 1)) as session:
        agent = agent_of(session)
        agent.ask(AskFacts(), 60.0)

        notices = agent.call(WatchNotices())

        assert notices.receive(60.0) == [TERMINATE]
        file.write_text(json.dumps({ACTION: TAKEN, REBALANCE: ADVISED}))
        assert notices.receive(60.0) == [ADVICE]
        more = agent.call(WatchNotices()).messages(60.0)
        assert [next(more), next(more)] == [TERMINATE, ADVICE]
    hosts.stop(host)
    service.wait(10)
