"""A form asks what its provider declares, is filled with the last wish, and trusts shown keys."""

from __future__ import annotations

import time

import pytest

from workbench.core.cluster.model import ClusterFact, ClusterState
from workbench.core.fleet.model import FleetWish, Leftover, Node, NodeState
from workbench.core.fleet.provider import known_providers
from workbench.core.node.host_findings import HostProbe
from workbench.core.world.world import Host
from workbench.errors import ClusterError, InputError, StateError
from workbench.pages.estimate import estimate_form, start_nodes
from workbench.pages.nodes_form import (
    ask_keys,
    form_message,
    form_request,
    prove_gone,
    read_form,
    read_hosts,
)
from workbench.pages.requests import FormRequest, HostFileRequest, KeysRequest, ProofRequest
from workbench.requests import cloud_queries

LINE = "10.0.0.1 ssh-ed25519 AAAA"
HOSTS = FormRequest(provider="hosts", hosts="10.0.0.1 slots=1\n10.0.0.2 cpu=1")


@pytest.fixture(autouse=True)
def no_one(monkeypatch) -> None:
    monkeypatch.setattr("workbench.requests.cluster.wake_supervisor", lambda cluster: None)


@pytest.fixture
def probes(monkeypatch) -> list[str]:
    """Hosts whose keys are known once they are trusted; the trusted lines are returned."""
    trusted: list[str] = []

    def contact(fleet, cluster):
        return tuple(
            HostProbe(one.address, LINE, "SHA256:abc", bool(trusted), 1) for one in fleet.hosts
        )

    monkeypatch.setattr(cloud_queries, "ask_contact", contact)
    monkeypatch.setattr(
        "workbench.pages.nodes_form.trust", lambda name, lines: trusted.extend(lines)
    )
    return trusted


def test_every_provider_is_offered_with_what_it_declares(store) -> None:
    places = {one.name: one for one in form_message(store, "default").places}

    assert [*places] == [one.name for one in known_providers()]
    assert places["local"].fields == ()
    folded = {one.label: one.is_folded for one in places["ec2"].fields}
    assert {"GPUs per node", "Region", "Budget, $"} <= {*folded}
    assert (folded["Budget, $"], folded["Prepare script"]) == (False, True)


def test_a_form_asks_for_what_it_was_filled_with() -> None:
    fleet = FleetWish(
        "rehearsal", nodes=3, min_nodes=2, max_nodes=4, budget=2.0, expires=time.time() + 7200
    )

    form = form_request(fleet, time.time())
    again = read_form(form)

    assert (again.nodes, again.min_nodes, again.max_nodes, again.budget) == (3, 2, 4, 2.0)
    assert again.expires == pytest.approx(fleet.expires, abs=60)


def test_no_minimum_is_taken_where_nodes_are_given_back() -> None:
    values = {"idle": "15"}

    fleet = read_form(FormRequest(provider="rehearsal", min_nodes=0, values=values))

    assert (fleet.min_nodes, fleet.idle) == (1, 900.0)
    with pytest.raises(InputError, match="keeps all nodes"):
        read_form(FormRequest(provider="rehearsal", min_nodes=0, values={"idle": "0"}))


def test_a_deleted_cluster_leaves_the_next_one_a_whole_life(store) -> None:
    fleet = FleetWish("rehearsal", nodes=2, budget=2.0, expires=time.time() + 60)
    store.wish_cluster("default", up=False, ranks=0, fleet=fleet)

    asked = form_message(store, "default").asked

    assert (asked.nodes, asked.values["budget"]) == (2, "2")  # to be looked at
    assert read_form(asked).expires == pytest.approx(time.time() + 8 * 3600, abs=60)


def test_a_cluster_of_this_machine_has_no_nodes_to_ask_for(store) -> None:
    store.wish_cluster("default", up=True, ranks=2)

    assert form_message(store, "default").asked is None
    with pytest.raises(InputError, match="has no nodes"):
        read_form(FormRequest(provider="local"))


def test_a_number_that_is_left_out_is_as_in_a_new_form() -> None:
    fleet = read_form(FormRequest(provider="rehearsal", values={"budget": "", "ttl": ""}))

    assert fleet.budget == 0.0
    assert fleet.expires == pytest.approx(time.time() + 8 * 3600, abs=60)


def test_an_unknown_key_is_shown_until_it_is_trusted(store, probes) -> None:
    first = ask_keys(store, "default", KeysRequest(form=HOSTS)).keys
    lines = tuple(one.line for one in first)

    left = ask_keys(store, "default", KeysRequest(form=HOSTS, trusted=lines)).keys

    assert [(one.address, one.kind, one.fingerprint) for one in first] == [
        ("10.0.0.1", "ssh-ed25519", "SHA256:abc"),
        ("10.0.0.2", "ssh-ed25519", "SHA256:abc"),
    ]
    assert (left, probes) == ((), [LINE, LINE])
    assert store.cluster_wish("default") is None


def test_a_host_that_cannot_be_used_is_named(store, monkeypatch) -> None:
    silent = HostProbe("10.0.0.1", error="10.0.0.1 does not answer; switch it on.")
    monkeypatch.setattr(cloud_queries, "ask_contact", lambda fleet, cluster: (silent,))

    with pytest.raises(InputError, match="does not answer"):
        ask_keys(store, "default", KeysRequest(form=HOSTS))


def test_hosts_are_started_as_they_are_listed(store) -> None:
    start_nodes(store, "default", HOSTS, None)

    fleet = store.cluster_wish("default").fleet
    assert (fleet.nodes, fleet.hosts) == (2, (Host("10.0.0.1", 1), Host("10.0.0.2", 1)))


@pytest.mark.parametrize(
    ("text", "sentence", "count"),
    [
        ("", "No hosts were given", 0),
        ("10.0.0.1 slots=x", "Line 1: slots must be a whole number", 0),
        ("10.0.0.1", "nodes must be from 0 to 1, not 2", 1),
    ],
)
def test_hosts_that_are_not_valid_are_refused_with_the_line(store, text, sentence, count) -> None:
    found = estimate_form(store, "default", FormRequest(provider="hosts", hosts=text))

    assert sentence in found.refusal
    assert found.hosts == count


def test_a_host_file_is_read_as_mpiexec_takes_it(store, tmp_path) -> None:
    text = "10.0.0.1:2\n10.0.0.2 slots=2 # the second\n"
    (tmp_path / "hosts").write_text(text)

    found = read_hosts(store, HostFileRequest(path=str(tmp_path / "hosts")))

    assert (found.text, found.count) == (text, 2)


@pytest.mark.parametrize("size", [None, 70_000])
def test_an_invalid_host_file_is_refused(store, tmp_path, size) -> None:
    path = tmp_path / "hosts"
    if size:
        path.write_text("#" * size)

    with pytest.raises(InputError, match="bytes" if size else "cannot be read"):
        read_hosts(store, HostFileRequest(path=str(path)))


@pytest.fixture
def gone(store) -> None:
    fleet = FleetWish("rehearsal", nodes=1)
    store.wish_cluster("default", up=False, ranks=0, fleet=fleet)
    node = Node("i-1", NodeState.GONE, "10.0.0.1", 1, price=0.2, spent=0.1, launched=1.0)
    store.fleets.put_nodes("default", [node])
    store.put_cluster_fact(ClusterFact("default", ClusterState.DOWN))


def test_after_a_deletion_the_provider_says_what_is_left(store, gone, monkeypatch) -> None:
    left = Leftover("volume", "vol-1", "default", price=0.01)
    answers = iter([(), (left,)])
    monkeypatch.setattr("workbench.view.cluster_changes.ask_leftovers", lambda *_: next(answers))

    proof = prove_gone(store, "default", ProofRequest(spent=0.2)).sentence

    assert "Verified: no resource of it is left. It would have cost $0.20." in proof
    with pytest.raises(ClusterError, match=r"still has volume vol-1, at \$0\.01/h"):
        prove_gone(store, "default", ProofRequest(spent=0.2))


def test_hosts_keep_running_after_a_deletion(store, gone) -> None:
    fleet = FleetWish("hosts", hosts=(Host("10.0.0.1", 1),))
    store.wish_cluster("default", up=False, ranks=0, fleet=fleet)

    assert (
        "the hosts keep running" in prove_gone(store, "default", ProofRequest(spent=0.2)).sentence
    )


def test_what_is_not_deleted_yet_has_no_proof(store, gone) -> None:
    store.put_cluster_fact(ClusterFact("default", ClusterState.STOPPING))

    with pytest.raises(StateError, match="is not deleted yet"):
        prove_gone(store, "default", ProofRequest(spent=0.2))
