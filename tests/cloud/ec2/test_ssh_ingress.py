"""This computer's network and its way out are asked for on loopback, and never elsewhere."""

from __future__ import annotations

import json
import socket
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tests.rehearsal.ec2.imds import Metadata
from workbench.cloud.ec2.network import (
    ADDRESS_SECONDS,
    OwnLocation,
    WayOut,
    own_location,
    own_ssh_source,
)
from workbench.core.fleet.cloud_errors import ErrorKind
from workbench.errors import CloudError

CARD = "meta-data/network/interfaces/macs/02:00:00:00:00:01"


@pytest.fixture
def environment(tmp_path):
    (tmp_path / "metadata.json").write_text(
        json.dumps(
            {
                "meta-data/mac": "02:00:00:00:00:01",
                f"{CARD}/vpc-id": "vpc-1",
                "meta-data/local-ipv4": "172.31.4.5",
            }
        )
    )
    handler = type("Handler", (Metadata,), {"file": tmp_path / "metadata.json"})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield {"AWS_EC2_METADATA_SERVICE_ENDPOINT": f"http://127.0.0.1:{server.server_port}"}
        server.shutdown()
        thread.join()


def test_a_computer_in_the_network_lets_in_its_own_private_address(environment):
    assert own_location(environment) == OwnLocation("vpc-1", "172.31.4.5")
    assert own_ssh_source("vpc-1", "us-east-1", environment) == "172.31.4.5/32"


def test_for_a_computer_of_another_network_the_remedy_is_shown(environment):
    with pytest.raises(CloudError, match="--ssh-from") as refused:
        own_ssh_source("vpc-2", "us-east-1", environment)

    assert refused.value.kind is ErrorKind.CONFIGURATION


def test_who_forbids_to_ask_is_not_asked_for(environment):
    forbidden = environment | {"AWS_EC2_METADATA_DISABLED": "true"}

    assert own_location(forbidden) == OwnLocation()


def test_a_computer_without_such_a_service_is_nowhere():
    nowhere = {"AWS_EC2_METADATA_SERVICE_ENDPOINT": "http://127.0.0.1:9"}

    assert own_location(nowhere) == OwnLocation()


class Address(BaseHTTPRequestHandler):
    """Answers with the address that the test has set."""

    now = ""

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(f"{self.now}\n".encode())

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


class Outside:
    """A service that tells addresses, an ssh server, and the time that passes."""

    def __init__(self, port: int, server: int) -> None:
        self.handler = Address
        self.seconds = 0.0
        self.way = WayOut(
            "us-east-1",
            {
                "WORKBENCH_ADDRESS_URL": f"http://127.0.0.1:{port}/",
                "WORKBENCH_SSH_SERVERS": f"127.0.0.1:9,127.0.0.1:{server}",
            },
            lambda: self.seconds,
        )


@pytest.fixture
def outside():
    with (
        ThreadingHTTPServer(("127.0.0.1", 0), Address) as server,
        socket.create_server(("127.0.0.1", 0)) as ssh,
    ):
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        Address.now = "203.0.113.7"
        yield Outside(server.server_port, ssh.getsockname()[1])
        server.shutdown()
        thread.join()


def test_auto_is_this_computers_public_address_also_when_it_changes(outside):
    assert outside.way.sources(["auto", "10.8.0.0/16"]) == ("203.0.113.7/32", "10.8.0.0/16")

    Address.now = "203.0.113.8"
    assert outside.way.sources(["auto"]) == ("203.0.113.7/32",)
    outside.seconds += ADDRESS_SECONDS
    assert outside.way.sources(["auto"]) == ("203.0.113.8/32",)


@pytest.mark.parametrize("answer", ["<html>", "2001:db8::1", ""])
def test_without_a_known_address_auto_is_refused_with_the_remedy(outside, answer):
    Address.now = answer

    with pytest.raises(CloudError, match="name it \\(--ssh-from 203") as refused:
        outside.way.sources(["auto"])

    assert refused.value.kind is ErrorKind.BUSY


def test_an_address_that_nodes_do_not_accept_is_named_with_the_command(outside):
    fault = outside.way.fault(["203.0.113.9/32"])

    assert str(fault) == (
        "This computer's public address is now 203.0.113.7, and nodes accept ssh from "
        "203.0.113.9/32 alone; let it in: `workbench up --ssh-from auto`, or with both addresses, "
        "separated by a comma."
    )
    assert outside.way.fault(["203.0.113.9/32", "203.0.113.0/29"]) is None
    assert outside.way.fault(["auto"]) is None
    assert outside.way.fault(["10.8.0.0/16"]) is None


def test_where_no_port_22_can_be_reached_the_network_is_at_fault(outside):
    closed = WayOut(
        "us-east-1",
        {"WORKBENCH_ADDRESS_URL": outside.way._url, "WORKBENCH_SSH_SERVERS": "127.0.0.1:9"},
    )

    assert str(closed.fault(["auto"])).startswith(
        "No connection to port 22 leaves this computer's network (neither 127.0.0.1:9 can"
    )
    assert "use another network or a VPN" in closed.explain(["auto"])


def test_a_computer_that_is_offline_forbids_nothing_and_says_so(outside):
    offline = WayOut("us-east-1", {"WORKBENCH_ADDRESS_URL": "http://127.0.0.1:9"})

    assert offline.fault(["203.0.113.9/32"]) is None
    assert offline.explain(["203.0.113.9/32"]).startswith("This computer may be offline")
    assert "VPN is up" in offline.explain(["10.8.0.0/16"])
    assert outside.way.explain(["auto"]) == ""
