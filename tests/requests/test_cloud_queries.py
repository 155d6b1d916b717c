"""A query about a provider runs in another process; its errors keep their class."""

from __future__ import annotations

import subprocess
import sys

import pytest

from workbench.core.cluster.size import Size
from workbench.core.fleet.cloud_errors import ErrorKind
from workbench.core.fleet.model import FleetWish, Needs, Node, NodeState, Offer, Purchase
from workbench.core.run.rank_protocol import Batch, Sample
from workbench.errors import CloudError, InputError, PriceQuestion
from workbench.requests.cloud_queries import (
    CloudMarket,
    ask_clean,
    ask_leftovers,
    ask_permissions,
    ask_policy,
    query_market,
)
from workbench.requests.cluster import ask_size
from workbench.store.paths import cluster_directory, trust, trusted_lines

LINE = "10.0.0.1 ssh-ed25519 AAAA"


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("WORKBENCH_HOME", str(tmp_path))
    return tmp_path


def test_offers_come_as_values_with_their_past_prices():
    market = query_market(FleetWish("rehearsal", needs=Needs(gpus=1)), 7200.0)

    assert market.region == ""
    assert all(offer.gpus and len(offer.history) == 2 for offer in market.offers)


def test_a_dry_run_tells_what_it_found():
    findings = ask_permissions(FleetWish("rehearsal"), Purchase("c", "t", 0, 1, 1, ("cpu.2",)))

    assert [finding.ok for finding in findings] == [True]


def test_nothing_is_left_of_what_never_was():
    assert ask_leftovers(FleetWish("rehearsal"), "c") == ask_clean("rehearsal", "", "c", "") == ()


def test_a_region_that_no_user_named_is_refused_before_anything_is_asked(monkeypatch):
    for variable in ("AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(variable, raising=False)

    with pytest.raises(
        InputError, match=r"No region is configured; name one \(in a shell: --region"
    ):
        query_market(FleetWish("ec2"))


def test_the_region_of_awss_own_settings_counts(monkeypatch, tmp_path):
    for variable in ("AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(variable, raising=False)
    (tmp_path / "config").write_text("[profile lab]\nregion = eu-west-1\n")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_PROFILE", "lab")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")

    with pytest.raises(CloudError) as refused:
        ask_leftovers(FleetWish("ec2"), "c")

    assert refused.value.kind != ErrorKind.UNKNOWN


def test_bad_input_stays_bad_input():
    with pytest.raises(InputError, match="is not s3://bucket/prefix"):
        ask_policy("node", "bucket")


def test_keys_that_were_agreed_to_are_kept_for_their_owner_alone():
    trust("lab", [LINE, "[10.0.0.2]:2222 ssh-ed25519 BBBB"])
    trust("lab", [LINE.replace("AAAA", "CCCC")])

    assert trusted_lines("lab") == (
        "10.0.0.1 ssh-ed25519 CCCC",
        "[10.0.0.2]:2222 ssh-ed25519 BBBB",
    )
    assert (cluster_directory("lab") / "known_hosts").stat().st_mode & 0o777 == 0o600
    assert trusted_lines("other") == ()


def test_the_program_says_what_it_answers():
    answer = subprocess.run(
        [sys.executable, "-m", "workbench.cloud", "everything"],
        capture_output=True,
        text=True,
        check=False,
    )

    assert (answer.returncode, answer.stdout) == (2, "")
    assert answer.stderr.startswith("python -m workbench.cloud answers offers, permissions, ")


def test_a_process_that_asks_loads_neither_boto3_nor_asyncssh():
    program = (
        "import sys, workbench.requests.cloud_queries, workbench.cli; "
        "print({'boto3', 'botocore', 'asyncssh'} & set(sys.modules))"
    )

    said = subprocess.check_output([sys.executable, "-c", program], text=True)

    assert said == "set()\n"


def test_the_question_about_other_zones_estimates_the_traffic_of_the_measured_training(
    store, run
) -> None:
    """Two ranks of 100 MB and a step a second, and one more: 133 MB over each of two edges."""
    fleet = FleetWish("ec2", nodes=1)
    cluster = store.run(run).wish.cluster
    store.wish_cluster(cluster, up=True, ranks=0, fleet=fleet)
    store.fleets.put_nodes(
        cluster, [Node("i-1", NodeState.JOINED, type="c5.large", zone="b", price=0.05)]
    )
    reported = (("step/compute", 0.9), ("step/communication", 0.1), ("exchange/nbytes", 1e8))
    samples = tuple(Sample(name, 1, 0.0, value) for name, value in reported)
    store.reports.add_batches([Batch(run, rank, 1, samples) for rank in (0, 1)])
    market = CloudMarket("us-east-1", (Offer("c5.large", "a", 0.04, 2, 4.0),))

    with pytest.raises(PriceQuestion, match=r"an estimated \$19.20/h for the latest training"):
        ask_size(store, Size(nodes=3), cluster=cluster, across_zones=True, market=lambda _: market)
