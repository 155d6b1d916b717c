"""What a person types about nodes becomes a wish, and nothing is bought or trusted unasked."""

from __future__ import annotations

import fcntl
import json
import time
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from workbench.cli import main
from workbench.cloud.rehearsal.provider import Rehearsal
from workbench.core.cluster.model import ClusterState, time_over_message
from workbench.core.fleet.model import FleetWish, Needs, Node, NodeState, Purchase
from workbench.store.paths import cluster_directory, home_directory

REHEARSE = ("up", "--rehearsal", "--nodes", "2", "--gpus", "1")
HOUR = 3600.0


def lease(cluster: str) -> None:
    """Have the rehearsal provide a node that no supervisor keeps."""
    purchase = Purchase(cluster, "t", 0, 1, 1, ("cpu.2",))
    Rehearsal(home_directory() / "rehearsal", clock=lambda: time.time() - 60).buy(purchase, "", ())


def test_up_shows_what_fits_what_it_costs_and_when_it_ends_and_asks(home, actor, store):
    result = CliRunner().invoke(main, [*REHEARSE, "--budget", "5"], input="y\n")

    assert "network, sustained" in result.stdout
    assert "gpu.1" in result.stdout
    assert "Dry run: 1 check passed: a rehearsal needs no permission." in result.stdout
    assert "Tried first: 2 nodes of gpu.1 in here-1" in result.stdout
    assert "The nodes are released after 8 h at the latest (" in result.stdout
    assert "They are released before they have cost $5.00." in result.stdout
    assert "Cluster 'default' is ready: 4 ranks on 2 of 2 nodes, after" in result.stdout
    fleet = store.cluster_wish("default").fleet
    assert (fleet.provider, fleet.nodes, fleet.needs) == ("rehearsal", 2, Needs(gpus=1))
    assert fleet.expires == pytest.approx(time.time() + 8 * HOUR, abs=60)


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        ("n\n", "Not confirmed, so nothing was done."),
        ("", "Not confirmed, so nothing was bought; answer at a terminal, or add --yes."),
    ],
)
def test_without_a_yes_nothing_is_wished_for(home, store, answer, sentence):
    result = CliRunner().invoke(main, REHEARSE, input=answer)

    assert (result.exit_code, result.stderr.strip()) == (2, sentence)
    assert store.clusters() == []


def test_a_yes_ahead_is_not_asked_for(workbench, actor, store):
    result = workbench(*REHEARSE, "--yes")

    assert result.exit_code == 0
    assert "[y/N]" not in result.stdout


def test_every_option_comes_into_the_wish(workbench, actor, store, tmp_path):
    Path("prepare.sh").write_text("pip install it\n")
    Path("data").mkdir()
    Path("data", "digits.npz").touch()
    options = (
        "--min-nodes 1 --max-nodes 4 --slots 1 --memory 8 --network 1 --type gpu.1 --type gpu.4 "
        "--zone here-1a --max-price $20 --budget 9 --ttl 0 --data data "
        "--output s3://bucket/results --prepare prepare.sh --image ami-0123abcd "
        "--cuda --lease 10m --link 0.1 --idle 30m"
    )

    workbench(*REHEARSE, *options.split(), "--yes")

    fleet = store.cluster_wish("default").fleet
    assert fleet.agreed
    assert replace(fleet, asked=0.0, agreed=0.0) == FleetWish(
        provider="rehearsal",
        nodes=2,
        max_nodes=4,
        slots=1,
        needs=Needs(1, 0.0, 8.0, 0, 1.0, ("gpu.1", "gpu.4"), ("here-1a",)),
        max_price=20.0,
        budget=9.0,
        idle=1800.0,
        data=str(tmp_path / "data"),
        output="s3://bucket/results",
        prepare="pip install it\n",
        starts_early=True,
        settings=(("cuda", True), ("image", "ami-0123abcd"), ("lease", 600.0), ("link", 0.1)),
    )


def test_what_is_up_already_is_not_asked_about_again(workbench, actor, store):
    workbench(*REHEARSE, "--yes")
    before = store.cluster_wish("default").fleet.expires

    result = workbench(*REHEARSE, "--ttl", "9h")

    assert result.exit_code == 0
    assert store.cluster_wish("default").fleet.expires == pytest.approx(before + HOUR, abs=60)


@pytest.mark.parametrize("command", [("up",), ("run", "--background", "train.py")])
def test_after_a_deletion_a_start_takes_this_machine(workbench, actor, store, script, command):
    workbench(*REHEARSE, "--yes")
    workbench("delete")
    actor.take_up()

    result = workbench(*command)

    assert result.exit_code == 0
    assert store.cluster_wish("default").fleet == FleetWish()


def test_a_new_cluster_has_its_whole_time_to_live(workbench, actor, store):
    workbench(*REHEARSE, "--yes", "--ttl", "1h", "--budget", "5")
    workbench("delete")
    actor.take_up()

    workbench(*REHEARSE, "--yes")

    fleet = store.cluster_wish("default").fleet
    assert fleet.expires == pytest.approx(time.time() + 8 * HOUR, abs=60)
    assert (fleet.budget, store.fleets.spent("default")) == (0.0, pytest.approx(0.1))


def test_resize_to_0_keeps_the_definition_and_pays_nothing(workbench, actor, store):
    workbench(*REHEARSE, "--yes")

    result = workbench("resize", "--nodes", "0")

    assert (
        "Cluster 'default' has no nodes now, and costs nothing; start some with `workbench resize "
        "--nodes N`.\n" in result.stdout
    )
    assert store.cluster_wish("default").fleet.needs == Needs(gpus=1)


def test_nodes_are_not_kept_without_ranks(workbench, actor, store):
    workbench(*REHEARSE, "--yes")
    before = store.cluster_wish("default")

    result = workbench("resize", "0")

    assert result.stderr.startswith("The number of ranks must be at least 1, not 0; `workbench del")
    assert store.cluster_wish("default") == before


def test_resize_gives_another_number_of_nodes(workbench, actor, store):
    workbench(*REHEARSE, "--yes")

    result = workbench("resize", "--nodes", "3")

    assert "6 ranks on 3 of 3 nodes" in result.stdout


def test_extend_adds_to_the_time_to_live(workbench, actor, store):
    workbench(*REHEARSE, "--yes", "--no-wait")
    before = store.cluster_wish("default").fleet.expires

    result = workbench("extend", "4h")

    assert store.cluster_wish("default").fleet.expires == before + 4 * HOUR
    assert result.stdout.startswith("Cluster 'default': ")
    assert " to live, until " in result.stdout


def test_a_cluster_without_an_end_is_not_extended(workbench, actor, store):
    workbench("up", "2", "--oversubscribe", "--no-wait")

    result = workbench("extend", "4h")

    assert result.stderr.strip() == ("Cluster 'default' never expires; there is nothing to extend.")


def test_status_shows_nodes_and_money(workbench, actor, store):
    workbench(*REHEARSE, "--yes", "--budget", "5")

    result = workbench("status")

    assert "2 of 2 nodes, $0.40/h now, $0.10 spent, $4.90 of $5.00 left, " in result.stdout
    assert "gpu.1 in here-1a" in result.stdout


def test_a_budget_that_is_used_up_at_once_starts_nothing(workbench, actor, store):
    result = workbench("up", "--rehearsal", "--nodes", "2", "--budget", "0.001", "--yes")

    assert result.exit_code
    assert "which is too little to start; raise --budget" in result.stderr
    assert store.cluster_wish("default") is None


def test_status_as_json_tells_nodes_and_money(workbench, actor, store):
    workbench(*REHEARSE, "--yes")

    reported = json.loads(workbench("status", "--json").stdout)["clusters"][0]["fleet"]

    assert (reported["nodes_actual"], reported["price"], reported["spent"]) == (2, 0.4, 0.1)


def test_down_asks_the_place_whether_anything_is_left(workbench, actor, store):
    workbench(*REHEARSE, "--yes")

    result = workbench("delete")

    assert result.stdout.strip() == (
        "Cluster 'default' is deleted. Verified: no resource of it is left. "
        "It would have cost $0.10."
    )


def test_down_does_not_hide_what_is_left(workbench, actor, store):
    workbench(*REHEARSE, "--yes")
    lease("default")

    result = workbench("delete")

    assert result.exit_code == 1
    assert "Cluster 'default' still has instance r-000001" in result.stderr


def test_a_sweep_lists_what_was_forgotten_and_deletes_it_on_a_yes(workbench, store):
    lease("forgotten")

    listed = workbench("sweep-leaks", "--rehearsal")
    deleted = workbench("sweep-leaks", "--rehearsal", "--yes")

    assert "Not confirmed, so nothing was deleted" in listed.stderr
    assert "1 min" in listed.stdout
    assert "Deleted 4 resources." in deleted.stdout
    assert workbench("sweep-leaks", "--rehearsal").stdout == "No resource has our tags.\n"


def test_a_sweep_leaves_what_is_in_use_here(workbench, actor, store):
    workbench(*REHEARSE, "--yes")
    lease("default")

    result = workbench("sweep-leaks", "--rehearsal", "--yes")

    assert "default (up here)" in result.stdout
    assert "All of these belong to clusters that are up" in result.stdout
    assert Rehearsal(home_directory() / "rehearsal").leftovers("default")


def test_offers_starts_nothing(workbench, store):
    result = workbench("offers", "--rehearsal", "--gpus", "1", "--nodes", "3")

    assert "`workbench up` would try 3 nodes of gpu.1" in result.stdout
    assert store.clusters() == []


def test_offers_as_json_has_the_past_prices(workbench):
    offers = json.loads(workbench("offers", "--rehearsal", "--type", "gpu.1", "--json").stdout)

    assert {offer["type"] for offer in offers} == {"gpu.1"}
    assert len(offers[0]["history"]) == 72


def test_a_job_file_brings_its_nodes_up(workbench, actor, store, script):
    Path("job.toml").write_text(
        'script = "train.py"\nname = "digits"\nprovider = "rehearsal"\nnodes = 2\nneeds.gpus = 1\n'
    )

    result = workbench("run", "--background", "--yes", "job.toml")

    assert result.exit_code == 0
    assert store.cluster_wish("default").fleet.nodes == 2
    assert store.run("digits").wish.options.wall_clock_limit == 7 * 24 * HOUR
    assert store.cluster_wish("default").fleet.expires > time.time() + 7 * 24 * HOUR


def test_what_becomes_of_lost_nodes_is_said_and_how_long_the_run_may_take(
    workbench, actor, store, script
):
    Path("job.toml").write_text(
        'script = "train.py"\nprovider = "rehearsal"\nnodes = 2\nneeds.gpus = 1\nshrink = "wait"\n'
    )

    result = workbench("run", "--background", "--yes", "--name", "r", "job.toml")

    assert "its newest snapshot when the node is replaced, or ends if it has none." in result.stderr
    assert "Run 'r' stops after 7 d" in result.stderr
    assert store.cluster_wish("default").fleet.min_nodes == 2


def test_this_machine_as_the_only_host_needs_no_key(workbench, actor, store):
    result = workbench("up", "--host", "localhost slots=2")

    assert "2 ranks on 1 of 1 node" in result.stdout
    assert store.cluster_wish("default").fleet.hosts[0].slots == 2


def test_a_host_that_does_not_answer_starts_nothing(workbench, store):
    result = workbench("up", "--host", "me@localhost.invalid:2222 slots=1")

    assert result.exit_code == 1
    assert "The name localhost.invalid is not known here; correct it" in result.stderr
    assert store.clusters() == []


def test_nodes_of_another_place_are_not_left_behind(workbench, actor, store):
    workbench(*REHEARSE, "--yes")

    result = workbench("up", "--host", "localhost")

    assert "Cluster 'default' is in a rehearsal; delete it first (`workbench delete`)" in (
        result.stderr
    )


def test_an_image_is_only_made_of_a_node_on_ec2(workbench, actor, store):
    workbench(*REHEARSE, "--yes")

    result = workbench("image", "bake")

    assert result.stderr.strip() == (
        "Cluster 'default' is in a rehearsal, and no images are made there."
    )


def test_an_image_is_made_of_the_head_and_not_under_a_run(workbench, store, home):
    store.wish_cluster("default", up=True, ranks=0, fleet=FleetWish("ec2", region="us-east-1"))
    store.fleets.put_nodes("default", [Node("i-1", NodeState.JOINED, head=True)])

    unknown = workbench("image", "bake", "--node", "i-2")
    unasked = workbench("image", "bake")

    assert "has no node 'i-2' that is ready; it has: i-1." in unknown.stderr
    assert "costs about $0.05 per GiB and month: at most $2.50 a month" in unasked.stdout
    assert "Make an image of i-1? You cannot log in to the node meanwhile. [y/N]" in unasked.stdout


def test_a_node_without_a_verified_login_is_not_baked(workbench, store, home):
    store.wish_cluster("default", up=True, ranks=0, fleet=FleetWish("ec2", region="us-east-1"))
    store.fleets.put_nodes("default", [Node("i-1", NodeState.JOINED, head=True)])

    result = workbench("image", "bake", "--yes")

    assert result.stderr.strip() == (
        "i-1 is not ready yet, so its private files cannot be removed; wait until it is ready."
    )


def test_what_is_no_image_is_not_deleted(workbench):
    result = workbench("image", "delete", "mine", "--yes")

    assert (
        "'mine' is not the id of an image; list yours with `workbench sweep-leaks`" in result.stderr
    )


@pytest.mark.parametrize("principal", ["person", "node", "baker"])
def test_the_doctor_prints_the_policy_of_each_principal(workbench, principal):
    result = workbench("doctor", "--iam", principal)

    assert json.loads(result.stdout)["Version"] == "2012-10-17"


def test_the_commands_that_make_the_nodes_role_are_beside_its_policy(workbench):
    result = workbench("doctor", "--iam", "node")

    for command in ("create-role", "put-role-policy", "create-instance-profile",
                    "add-role-to-instance-profile"):  # fmt: skip
        assert f"aws iam {command} " in result.stderr
    assert workbench("doctor", "--iam").stderr == ""


def test_the_policy_of_a_node_names_its_bucket(workbench):
    result = workbench("doctor", "--iam", "node", "--output", "s3://bucket/results")

    assert "arn:aws:s3:::bucket/results/*" in result.stdout


# -- limits of a cluster that is up


@pytest.fixture
def rehearsed(workbench, actor, store):
    """A rehearsal of two nodes with a budget of $5."""
    assert workbench(*REHEARSE, "--budget", "5", "--yes").exit_code == 0
    return store


def test_a_limit_alone_is_lowered_without_a_question(workbench, rehearsed):
    before = rehearsed.cluster_wish("default").fleet

    said = workbench("up", "--budget", "0.0016")
    lives = workbench("up", "--ttl", "1h")

    fleet = rehearsed.cluster_wish("default").fleet
    assert (said.exit_code, lives.exit_code) == (0, 0), said.stderr + lives.stderr
    assert "Cluster 'default' may cost up to $0.0016 (before: $5.00); $0" in said.stdout
    assert "Its nodes are released after 1 h (" in lives.stdout
    assert replace(fleet, budget=5.0, expires=before.expires) == before
    assert fleet.budget == 0.0016
    assert fleet.expires == pytest.approx(time.time() + HOUR, abs=60)


@pytest.mark.parametrize("option", [("--budget", "6"), ("--budget", "0"), ("--ttl", "0")])
def test_a_limit_is_raised_by_a_yes_alone(workbench, rehearsed, option):
    before = rehearsed.cluster_wish("default").fleet

    asked = workbench("up", *option)
    same = rehearsed.cluster_wish("default").fleet
    agreed = workbench("up", *option, "--yes")

    assert "Not confirmed, so nothing was changed" in asked.stderr
    assert same == before
    assert agreed.exit_code == 0, agreed.stderr
    assert rehearsed.cluster_wish("default").fleet != before


def test_a_restated_default_shortens_no_time_and_a_given_one_does(workbench, rehearsed):
    workbench("up", "--ttl", "20h", "--yes")
    workbench(*REHEARSE, "--budget", "5", "--yes")
    kept = rehearsed.cluster_wish("default").fleet.expires
    workbench(*REHEARSE, "--budget", "5", "--ttl", "2h", "--yes")

    assert kept == pytest.approx(time.time() + 20 * HOUR, abs=60)
    shorter = rehearsed.cluster_wish("default").fleet.expires
    assert shorter == pytest.approx(time.time() + 2 * HOUR, abs=60)


def test_after_its_time_a_cluster_is_started_again_at_a_price_and_elsewhere_for_no_run(
    workbench, rehearsed, actor, tmp_path
):
    wish = rehearsed.cluster_wish("default")
    over = replace(wish.fleet, expires=time.time() - 1)
    rehearsed.wish_cluster("default", up=False, ranks=0, fleet=over)
    actor.leave()
    fact, down = rehearsed.cluster_fact("default"), rehearsed.cluster_wish("default")
    message = time_over_message(down)
    rehearsed.put_cluster_fact(replace(fact, state=ClusterState.DOWN, message=message))
    (tmp_path / "train.py").write_text("pass")

    run = workbench("run", str(tmp_path / "train.py"))
    plain, more = workbench("up"), workbench("resize", "--nodes", "2")
    unasked = workbench("up", "--ttl", "1h")
    with (cluster_directory("default") / "supervisor.lock").open("wb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # so that none is started
        again = workbench("up", "--ttl", "1h", "--yes", "--no-wait")

    for one in (run, plain, more):
        assert "time to live of cluster 'default' is over, and its nodes were" in one.stderr
        assert "`workbench up --cluster default --ttl 8h`" in one.stderr
    assert "Not confirmed, so nothing was bought" in unasked.stderr
    assert "Tried first: 2 nodes of gpu.1" in again.stdout
    fleet = rehearsed.cluster_wish("default").fleet
    assert (fleet.nodes, fleet.budget, rehearsed.cluster_wish("default").up) == (2, 5.0, True)


def test_a_run_says_where_its_cluster_starts(workbench, actor, store, tmp_path):
    (tmp_path / "train.py").write_text("pass")

    said = workbench("run", "--background", str(tmp_path / "train.py"))

    assert "Starting cluster 'default' on this machine." in said.stderr
