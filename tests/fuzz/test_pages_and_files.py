"""Whatever a page sends, or a file holds, it is a checked value or a sentence with the remedy."""

from __future__ import annotations

import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fuzz.words import JSON, TEXT, fuzzed, line
from workbench.core.cluster.model import check_cluster_name
from workbench.core.node.staging import check_path, parse_bucket
from workbench.core.options.jobfile import parse_job
from workbench.core.run.model import check_run_name
from workbench.core.run_id import is_run_id
from workbench.core.world.hostfile import parse_hosts
from workbench.core.world.known_hosts import check_line, fingerprint, known_hosts
from workbench.errors import InputError, WorkbenchError
from workbench.pages.requests import (
    ExtensionRequest,
    NotebookRequest,
    RunsQuery,
    SizeRequest,
    check_holder,
    check_run_id,
    read_body,
    read_page_message,
    read_query,
)
from workbench.supervisor.data.outputs import Outputs

JOB = st.dictionaries(
    st.sampled_from(["name", "script", "cell", "ranks", "param", "nodes", "hosts", "needs"]) | TEXT,
    JSON,
    max_size=5,
)
HOSTS = st.lists(
    st.lists(st.sampled_from(["gpu1", "me@10.0.0.4:22", "slots=2", "[::1]:22", "#", "="]) | TEXT),
    max_size=4,
).map(lambda lines: "\n".join(" ".join(words) for words in lines))
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
KNOWN = st.tuples(TEXT, st.sampled_from([KEY, "ssh-rsa AAAA", "x y", ""]), TEXT).map(" ".join)


@fuzzed()
@given(
    line("ack")
    | st.fixed_dictionaries({"type": JSON}, optional={"after": JSON, "version": JSON}).map(
        json.dumps
    )
    | st.binary()
)
def test_a_message_of_a_page_is_one_or_a_sentence(text):
    with contextlib.suppress(InputError):
        read_page_message(text)


@fuzzed()
@given(st.binary() | JSON.map(lambda value: json.dumps(value).encode()), st.integers(0, 400))
def test_a_body_is_one_or_a_short_sentence(body, more):
    for model in (SizeRequest, ExtensionRequest, NotebookRequest):
        with contextlib.suppress(InputError):
            read_body(model, body)
        with pytest.raises(InputError) as refused:
            read_body(model, json.dumps({"x" * (more + 10): 1}).encode())
        assert len(str(refused.value)) < 400


@fuzzed()
@given(TEXT | st.text())
def test_a_word_of_an_address_is_checked_or_refused(text):
    for check in (
        check_run_id, check_holder, check_cluster_name, check_run_name, check_path, parse_bucket,
    ):  # fmt: skip
        with contextlib.suppress(WorkbenchError):
            check(text)
    with contextlib.suppress(InputError):
        assert 1 <= read_query(RunsQuery, {"limit": text}).limit <= 200
    if is_run_id(text):
        assert "/" not in text


@fuzzed()
@given(JOB.map(json.dumps) | st.text(), st.sampled_from(["job.json", "job.toml"]))
def test_a_job_file_is_one_or_a_sentence(text, name):
    with contextlib.suppress(InputError):
        parse_job(text, f"/srv/person/{name}")


@fuzzed()
@given(HOSTS | st.text())
def test_a_host_file_is_one_or_a_sentence(text):
    with contextlib.suppress(InputError):
        for host in parse_hosts(text):
            assert not host.address.startswith("-")
            assert not host.user.startswith("-")


@fuzzed()
@given(KNOWN | st.text())
def test_a_line_of_known_hosts_trusts_one_host_or_nothing(text):
    with contextlib.suppress(InputError):
        name, *_ = check_line(text).split(" ")
        assert not {*"*?!,|@"} & {*name}
        fingerprint(text)
        known_hosts([text])


@fuzzed()
@given(st.binary() | JSON.map(lambda value: json.dumps(value).encode()))
def test_what_a_predecessor_wrote_down_ends_no_supervisor(tmp_path_factory, data):
    folder = tmp_path_factory.getbasetemp()
    (folder / "outputs.json").write_bytes(data)

    Outputs("c", lambda host: None, folder)
