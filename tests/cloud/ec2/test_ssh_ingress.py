"""This computer's network is read from its own metadata service, here on loopback."""

from __future__ import annotations

import json
import threading
from http.server import ThreadingHTTPServer

import pytest

from tests.rehearsal.ec2.imds import Metadata
from workbench.cloud.ec2.network import OwnLocation, own_location, own_ssh_source
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
