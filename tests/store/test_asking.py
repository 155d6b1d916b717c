"""A question about a place is asked of a program; its refusals come back as they were meant."""

from __future__ import annotations

import subprocess
import sys

import pytest

from workbench.core.fleet import Needs, Place, Purchase
from workbench.core.refusal import Kind
from workbench.errors import CloudRefused, InputError
from workbench.store.asking import (
    ask_clean,
    ask_leftovers,
    ask_offers,
    ask_permissions,
    ask_policy,
    trust,
    trusted_lines,
)
from workbench.store.home import cluster_directory

LINE = "10.0.0.1 ssh-ed25519 AAAA"


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("WORKBENCH_HOME", str(tmp_path))
    return tmp_path


def test_offers_come_as_values_with_their_past_prices():
    market = ask_offers(Place.FAKE, Needs(gpus=1), history_seconds=7200.0)

    assert market.region == ""
    assert all(offer.gpus and len(offer.history) == 2 for offer in market.offers)


def test_a_dry_run_tells_what_it_found():
    findings = ask_permissions(Place.FAKE, "", Purchase("c", "t", 0, 1, 1, ("cpu.2",)))

    assert [finding.ok for finding in findings] == [True]


def test_nothing_is_left_of_what_never_was():
    assert ask_leftovers(Place.FAKE, "", "c") == ask_clean(Place.FAKE, "", "c", "") == ()


def test_a_region_that_nobody_named_is_refused_before_anything_is_asked(monkeypatch):
    for variable in ("AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(variable, raising=False)

    with pytest.raises(InputError, match=r"No region was named; name one \(--region us-east-1\)"):
        ask_offers(Place.EC2, Needs())


def test_the_region_of_awss_own_settings_counts(monkeypatch, tmp_path):
    for variable in ("AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(variable, raising=False)
    (tmp_path / "config").write_text("[profile lab]\nregion = eu-west-1\n")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_PROFILE", "lab")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")

    with pytest.raises(CloudRefused) as refused:
        ask_leftovers(Place.EC2, "", "c")

    assert refused.value.kind != Kind.UNKNOWN


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


def test_whoever_asks_loads_neither_boto3_nor_asyncssh():
    program = (
        "import sys, workbench.store.asking, workbench.cli; "
        "print({'boto3', 'botocore', 'asyncssh'} & set(sys.modules))"
    )

    said = subprocess.check_output([sys.executable, "-c", program], text=True)

    assert said == "set()\n"
