"""Data is staged on real hosts by ssh and from S3, and the output of runs is collected."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import boto3
import pytest

from tests.cloud.conftest import log_in
from tests.rehearsal.ec2 import imds
from tests.rehearsal.ec2.endpoint import Endpoint
from tests.rehearsal.hosts import END_SECONDS, HOME, Hosts, RehearsalHost
from tests.waiting import until
from workbench.core.fleet.model import FleetWish
from workbench.errors import MachineError
from workbench.supervisor.data.staging import Staging, data_folder_of

pytestmark = [pytest.mark.root, pytest.mark.timeout(400)]

PROGRAMS = Path(__file__).parent / "programs"
BIG = 24_000_000
SMALL = 60  # S3 is asked for each of them
ROLE = "meta-data/iam/security-credentials/"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Give a folder with a large file, many small ones, and an empty one."""
    top = tmp_path / "data"
    (top / "small").mkdir(parents=True)
    (top / "big").write_bytes(os.urandom(BIG))
    for number in range(SMALL):
        (top / "small" / f"{number}.npz").write_bytes(os.urandom(2000))
    (top / "empty").touch()
    return top


@pytest.fixture(scope="module")
def endpoint() -> Iterator[Endpoint]:
    """Give the rehearsal's AWS; only S3 is used here."""
    with Endpoint() as endpoint:
        yield endpoint


@pytest.fixture
def s3(endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch):
    """Give S3 with an empty bucket."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint.url)
    endpoint.reset()
    client = boto3.client("s3")
    client.create_bucket(Bucket="digits")
    yield client
    client.close()


@contextlib.contextmanager
def with_role(hosts: Hosts) -> Iterator[None]:
    """Have each host's metadata service give it the credentials of a role."""
    keys = {
        "Code": "Success",
        "Type": "AWS-HMAC",
        "AccessKeyId": "ASIAROLE",
        "SecretAccessKey": "secret",
        "Token": "token",
        "LastUpdated": "2026-01-01T00:00:00Z",
        "Expiration": "2099-01-01T00:00:00Z",
    }
    reported = {ROLE: "node", f"{ROLE}node": json.dumps(keys)}
    with contextlib.ExitStack() as stack:
        for host in hosts:
            path = host.folder / "metadata.json"
            path.write_text(json.dumps(reported))
            service = host.popen(
                sys.executable, "-I", imds.__file__, str(path), stdin=subprocess.DEVNULL
            )
            stack.callback(service.wait, END_SECONDS)
            stack.callback(service.kill)
            until(partial(host.listens, imds.PORT), what="its metadata service")
        yield


def digests(host: RehearsalHost, folder: str) -> set[str]:
    """Return what tells the files of a host's folder, by their paths in it."""
    text = f"cd {HOME}/{folder.removeprefix('~/')} && find . -type f -exec sha256sum {{}} +"
    return set(host.run("sh", "-c", text).splitlines())


def digests_here(folder: Path) -> set[str]:
    found = subprocess.check_output(
        ["sh", "-c", f"cd {folder} && find . -type f -exec sha256sum {{}} +"], text=True
    )
    return set(found.splitlines())


def test_a_folder_comes_to_three_hosts_side_by_side_though_one_is_cut_off(possible, folder):
    wish = FleetWish("hosts", data=str(folder), prepare='test -s "$WORKBENCH_DATA/big"')
    staging, place = Staging("c"), data_folder_of("c", wish)
    said: dict[int, list[str]] = {0: [], 1: [], 2: []}
    with Hosts(3) as hosts, ThreadPoolExecutor(3) as pool:
        for host in hosts:
            host.shape(60)
        hosts[1].shape(15)  # slow enough to be cut in the middle
        sessions = [log_in(hosts, number) for number in range(3)]
        under_way = [
            pool.submit(staging.prepare, session, wish, said[number].append)
            for number, session in enumerate(sessions)
        ]
        parts = f"{HOME}/{place[2:].replace('workbench-data/', 'workbench-data/.')}/parts"
        until(
            lambda: _size(hosts[1], parts) > BIG / 3,
            what="the first third of the large file",
            said=str,
            seconds=120,
        )
        hosts[1].cut()
        with pytest.raises(MachineError, match="wait until that machine is reached again; staging"):
            under_way[1].result(60)
        sessions[1].close()
        hosts[1].reconnect()
        hosts[1].shape(60)
        before = _size(hosts[1], parts)
        sessions[1] = log_in(hosts, 1)

        taken = -_received(hosts[1])
        staging.prepare(sessions[1], wish, said[1].append)
        taken += _received(hosts[1])
        under_way[0].result(60)
        under_way[2].result(60)

        assert before > BIG / 3
        assert taken < 1.2 * (BIG - before) + 3e6  # what was there was not sent again
        for host in hosts:
            assert digests(host, place) == digests_here(folder)
        assert any(sentence.startswith("Data: ") and "%, " in sentence for sentence in said[0])
        for session in sessions:
            session.close()


def test_rented_nodes_take_the_data_from_the_first_in_their_own_network(possible, folder):
    wish = FleetWish("ec2", data=str(folder))
    staging, place = Staging("c"), data_folder_of("c", wish)
    said: list[str] = []
    with Hosts(4) as hosts, ThreadPoolExecutor(4) as pool:
        sessions = [log_in(hosts, number) for number in range(4)]
        sent = -_sent(hosts)
        began = time.monotonic()
        list(pool.map(lambda session: staging.prepare(session, wish, said.append), sessions))
        sent += _sent(hosts)
        print(f"{sent / 1e6:.1f} MB for {BIG / 1e6:.0f} MB, {time.monotonic() - began:.1f} s")

        assert sent < 1.3 * BIG
        for host in hosts:
            assert digests(host, place) == digests_here(folder)
        assert "Data: it is sent to another node first, and comes from there." in said
        for session in sessions:
            session.close()


def _sent(hosts: Hosts) -> int:
    """Return how many bytes this machine has sent to hosts."""
    return int(Path(f"/sys/class/net/{hosts.name}/statistics/tx_bytes").read_text())


def _size(host: RehearsalHost, folder: str) -> int:
    text = f"cat {folder}/* 2>/dev/null | wc -c"
    return int(host.run("sh", "-c", text))


def _received(host: RehearsalHost) -> int:
    return int(host.run("cat", "/sys/class/net/eth0/statistics/rx_bytes"))


def test_other_tasks_of_a_session_continue_while_data_is_staged(hosts, folder):
    host = hosts.start()
    host.shape(30)
    session = log_in(hosts)
    wish = FleetWish("hosts", data=str(folder))
    thread = threading.Thread(target=Staging("c").prepare, args=(session, wish, lambda _: None))
    started = time.monotonic()
    thread.start()
    longest = 0.0
    while thread.is_alive():
        began = time.monotonic()
        assert session.run(["true"]).status == 0
        longest = max(longest, time.monotonic() - began)
    thread.join()
    took = time.monotonic() - started

    assert digests(host, data_folder_of("c", wish)) == digests_here(folder)
    assert longest < took / 2  # behind all of the data, one task would take as long
    session.close()


def test_each_host_fetches_from_s3_with_its_own_role(possible, s3, folder, tmp_path):
    for path in folder.rglob("*"):
        if path.is_file():
            key = f"some/digits/{path.relative_to(folder)}"
            s3.put_object(Bucket="digits", Key=key, Body=path.read_bytes())
    wish = FleetWish("hosts", data="s3://digits/some/digits")
    said: list[str] = []
    with Hosts() as hosts:
        for _ in range(2):
            hosts.start(imds=imds.ADDRESS)
        with with_role(hosts), ThreadPoolExecutor(2) as pool:
            sessions = [log_in(hosts, number) for number in range(2)]
            staging = Staging("c")
            list(pool.map(lambda session: staging.prepare(session, wish, said.append), sessions))

            for host in hosts:
                assert digests(host, data_folder_of("c", wish)) == digests_here(folder)
            assert any(sentence.endswith("100 %.") or "100 %, " in sentence for sentence in said)
            command = host.run("sh", "-c", "cat /proc/*/cmdline /proc/*/environ | tr '\\0' ' '")
            assert "secret" not in command
            for session in sessions:
                session.close()


def test_a_host_without_a_role_says_what_it_lacks(hosts, s3):
    hosts.start()
    session = log_in(hosts)
    wish = FleetWish("hosts", data="s3://digits/x")

    with pytest.raises(MachineError, match="There are no AWS credentials for s3://digits/x on"):
        Staging("c").prepare(session, wish, lambda sentence: None)

    session.close()


@pytest.mark.mpi
def test_a_cluster_has_its_data_and_its_runs_come_to_s3(possible, s3, folder, tmp_path):
    shutil.copy(PROGRAMS / "results.py", tmp_path / "train.py")
    (tmp_path / "prepare.sh").write_text(
        'ls "$WORKBENCH_DATA/small" | wc -l > unpacked\nmv unpacked "$WORKBENCH_DATA"\n'
    )
    with Hosts() as hosts:
        for _ in range(2):
            hosts.start(imds=imds.ADDRESS)
        workbench = _command(hosts, tmp_path)
        with with_role(hosts):
            try:
                workbench(
                    "up", "--hosts", "hosts", "--data", "data", "--prepare", "prepare.sh",
                    "--output", "s3://digits/results", input="y\n",
                )  # fmt: skip
                workbench("run", "train.py", "--name", "first")
            finally:
                workbench("delete")
        kept = hosts[0].run("sh", "-c", "find /root -path '*workbench*' -type f")

    found = {
        item["Key"]: s3.get_object(Bucket="digits", Key=item["Key"])["Body"].read()
        for item in s3.list_objects_v2(Bucket="digits")["Contents"]
    }
    (top,) = {"/".join(key.split("/")[:3]) for key in found}
    cluster, run = top.split("/")[1:]
    assert cluster == "default"
    names = {key.removeprefix(f"{top}/") for key in found}
    models = {name for name in names if name.endswith("model")}
    assert names - models == {
        "log.txt", "points.jsonl", "snapshots/rank-0", "snapshots/rank-1",
    }  # fmt: skip
    assert {found[f"{top}/{name}"] for name in models} == {b"of rank 0", b"of rank 1"}
    assert "model" in models
    assert f"0 | node1 {SMALL}\n".encode() in found[f"{top}/log.txt"]
    assert f"1 | node2 {SMALL}\n".encode() in found[f"{top}/log.txt"]
    assert len(found[f"{top}/points.jsonl"].splitlines()) == 20
    assert f"{run}/model" in kept
    assert ".workbench/" not in kept


def _command(hosts: Hosts, folder: Path):
    """Return what calls ``workbench`` as a person of its own, who knows the hosts' key."""
    home = folder / "person"
    (home / ".ssh").mkdir(parents=True, mode=0o700)
    for place in (home / ".ssh" / "id_ed25519",):
        place.touch(0o600)
        place.write_text(hosts.key)
    for host in hosts:  # the head logs in to the others with a key of the person's
        text = f"umask 077; mkdir -p {HOME}/.ssh; cat > {HOME}/.ssh/id_ed25519"
        host.run("sh", "-c", text, input=hosts.key)
    lines = "".join(f"root@{host.address} slots=1\n" for host in hosts)
    (folder / "hosts").write_text(lines)
    environment = {**os.environ, "HOME": str(home), "WORKBENCH_HOME": str(folder / "home")}

    def run(*words: str, input: str = "") -> str:
        done = subprocess.run(
            [sys.executable, "-m", "workbench.cli", *words],
            input=input,
            capture_output=True,
            text=True,
            check=False,
            timeout=180,
            cwd=folder,
            env=environment,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return run
