"""Each provider has its own way to buy nodes and to log in; wishes may change meanwhile."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import replace

import pytest

from workbench.cloud.ec2.description import role_of
from workbench.cloud.ec2.launch_template import MAX_USER_DATA_NBYTES
from workbench.cloud.hosts.listed_hosts import ListedHosts
from workbench.cloud.hosts.local_session import LocalSession
from workbench.cloud.rehearsal.provider import Rehearsal
from workbench.cloud.rented.ssh_keys import KeyRing
from workbench.cloud.rented.userdata import PREFIX, first_host_key
from workbench.core.cluster.model import ClusterWish
from workbench.core.fleet import node_provider
from workbench.core.fleet.model import FleetWish, Machine, MachineState, Purchase
from workbench.core.world.world import Host
from workbench.errors import InputError, MachineError
from workbench.store import Store
from workbench.store.paths import cluster_directory
from workbench.supervisor.process import cluster_context

PURCHASE = Purchase("lab", "token", 0, 2, 2, ("c5.large",))
MACHINE = Machine("i-1", MachineState.RUNNING, "10.0.0.4", "10.0.0.4", token="token")


@pytest.fixture
def store(tmp_path, monkeypatch):
    monkeypatch.setenv("WORKBENCH_HOME", str(tmp_path))
    with Store() as store:
        yield store


@pytest.fixture
def rent(store):
    """Return a function that makes a wish for nodes of EC2 and returns their provider."""

    def wish(**fields: object) -> ClusterWish:
        fleet = FleetWish("ec2", region="us-east-1", **fields)
        return store.wish_cluster("lab", up=True, ranks=0, fleet=fleet)

    return wish


def open_provider(wish, store):
    return node_provider.open_provider(cluster_context(wish, store))


def config(text):
    return json.loads(text.removeprefix("#cloud-config\n"))


def test_listed_hosts_are_opened_and_never_bought(store):
    fleet = FleetWish("hosts", hosts=(Host("127.0.0.1", 2),))

    provider = open_provider(ClusterWish("lab", up=True, ranks=0, fleet=fleet), store)
    machine = Machine("127.0.0.1", MachineState.RUNNING, "127.0.0.1", "127.0.0.1")

    assert isinstance(provider, ListedHosts)
    assert isinstance(provider.open(machine), LocalSession)
    assert provider.user_data(PURCHASE) == ""


def test_the_rehearsals_nodes_are_simulated(store):
    wish = ClusterWish("lab", up=True, ranks=0, fleet=FleetWish("rehearsal"))

    assert isinstance(open_provider(wish, store), Rehearsal)


def test_this_machine_rents_nothing(store):
    with pytest.raises(InputError):
        open_provider(ClusterWish("lab", up=True, ranks=0, fleet=FleetWish()), store)


def test_a_rented_node_gets_a_host_key_of_its_purchase_and_the_users_public_one(store, rent):
    provider = open_provider(rent(), store)

    one, two = provider.user_data(PURCHASE), provider.user_data(PURCHASE)

    ring = KeyRing(cluster_directory("lab"))
    assert first_host_key(one).startswith("ssh-ed25519 ")
    assert first_host_key(one) != first_host_key(two)
    assert config(one)["users"][0]["ssh_authorized_keys"] == [ring.public]
    assert ring.private.splitlines()[-3] not in one
    assert len(one) < MAX_USER_DATA_NBYTES / 2
    assert PREFIX in one
    assert sys.prefix not in one


def test_root_here_is_root_there(store, rent, monkeypatch):
    provider = open_provider(rent(), store)

    users = []
    for number in (0, 1000):
        monkeypatch.setattr(os, "geteuid", lambda number=number: number)
        users.append(config(provider.user_data(PURCHASE))["users"][0]["name"])

    assert users == ["root", "workbench"]


def test_a_node_gets_the_end_of_the_wish_when_it_is_bought(store, rent):
    provider = open_provider(rent(expires=2e9), store)
    rent(expires=2.5e9)

    assert "2500000000" in provider.user_data(PURCHASE)


def test_a_node_that_was_not_bought_is_not_entered(store, rent):
    provider = open_provider(rent(), store)

    with pytest.raises(MachineError, match="No host key is on record for i-1"):
        provider.open(MACHINE)


def test_a_new_door_is_opened_before_the_next_log_in(store, rent, monkeypatch):
    admitted = []
    provider = open_provider(rent(settings=(("ssh_from", "203.0.113.7/32"),)), store)
    monkeypatch.setattr(provider, "admit", admitted.append)

    for ssh_source in ("203.0.113.7/32", "203.0.113.8/32", "203.0.113.8/32"):
        rent(settings=(("ssh_from", ssh_source),))
        with pytest.raises(MachineError):
            provider.open(replace(MACHINE, id="i-2"))

    assert admitted == ["lab"]


def test_keys_go_when_nothing_is_left(store, rent):
    provider = open_provider(rent(), store)
    provider.user_data(PURCHASE)  # which names the cluster's key
    before = KeyRing(cluster_directory("lab")).private

    provider.forget()

    assert before
    assert KeyRing(cluster_directory("lab")).private == ""


@pytest.mark.parametrize(
    ("fields", "role"),
    [
        ({}, ""),
        ({"data": "/data", "output": "results"}, ""),
        ({"data": "s3://bucket/digits"}, "workbench-node"),
        ({"output": "s3://bucket/results"}, "workbench-node"),
    ],
)
def test_nodes_have_a_role_only_for_what_is_in_a_bucket(store, rent, fields, role):
    wish = rent(**fields)

    provider = open_provider(wish, store)

    assert role_of(wish.fleet) == provider._settings().profile == role
