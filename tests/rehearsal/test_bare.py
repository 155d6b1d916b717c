"""Nodes that share nothing with this machine: a bare system, cloud-init, apt, index, then MPI."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from tests.rehearsal.bare import debian
from tests.rehearsal.bare.debian import Debian
from tests.rehearsal.bare.mirror import Mirror
from tests.rehearsal.conftest import bare, debians, possible
from tests.rehearsal.ec2 import imds
from tests.rehearsal.ec2.endpoint import ROOT, Endpoint
from tests.rehearsal.ec2.machines import serve_metadata
from tests.rehearsal.hosts import BOOT, PLACE, Hosts, remove_leftovers
from tests.rehearsal.test_ec2_cluster import NAME, Shell, shell, until
from workbench.cloud.hosts.ssh import SshSession, new_key, open_session
from workbench.cloud.rented import userdata
from workbench.cloud.rented.userdata import BootData, is_ready, user_data
from workbench.core.world.world import Host
from workbench.errors import MachineError

__all__ = ["bare", "debians", "possible", "shell"]
pytestmark = [
    pytest.mark.root, pytest.mark.mpi, pytest.mark.weekly, pytest.mark.timeout(600),
]  # fmt: skip
UP_SECONDS = 240.0


@pytest.fixture(scope="module")
def one_endpoint(bare: Debian) -> Iterator[Endpoint]:
    with Endpoint(machines=True, bare=bare.folder) as endpoint:
        yield endpoint


def test_two_bare_nodes_train_over_mpi_and_leave_nothing(shell: Shell, bare: Debian) -> None:
    shell.up(2, seconds=UP_SECONDS)
    hosts = shell.run()

    assert len(hosts) == 2
    for root in shell.endpoint.roots:
        # Debian's own, and cloud-init's work.
        assert bare.release in (root / "etc/os-release").read_text()
        reported = json.loads((root / "run/cloud-init/result.json").read_text())["v1"]
        assert reported == {"datasource": "DataSourceEc2", "errors": []}
        assert (root / "etc/hostname").read_text().strip() in hosts
        assert (root / userdata.PREFIX.lstrip("/") / "bin/python").exists()
        assert not (root / str(ROOT).lstrip("/")).exists()
    shell.do("delete", "--cluster", NAME)
    shell.nothing_is_left()
    until(lambda: not [*bare.disks.iterdir()], what="no disk")
    assert str(bare.folder) not in Path("/proc/mounts").read_text()


@pytest.mark.parametrize("release", debian.PYTHONS)
def test_a_node_is_set_up_for_a_user_who_is_not_root(
    release: str, debians: Callable[[str], Debian]
) -> None:
    bare = debians(release)
    own = "{}.{}".format(*debian.PYTHONS[release])
    private, public = new_key()
    registries = debian.registries(bare)
    with (
        Hosts() as hosts,
        Mirror(hosts.address, registries, bare.packages, debian.proxies()) as mirror,
        contextlib.ExitStack() as ended,
    ):
        host = hosts.start(imds=imds.ADDRESS, disk=bare.disk("user", mirror.url))
        boot = BootData("mine", private, public, hosts.public_key, own, user="workbench")
        reported = {
            "dynamic/instance-identity/document": "{}",
            "meta-data/instance-id": "i-1",
            "user-data": user_data(boot),
        }
        (host.folder / "metadata.json").write_text(json.dumps(reported))
        ended.callback(serve_metadata(host).wait, 10)
        ended.callback(hosts.stop, host)
        host.boot()

        there = Host(host.address, 1, user=boot.user)
        session = log_in(there, f"{host.address} {public}", hosts.key)
        ended.callback(session.close)
        ready = session.run(["sh", "-c", is_ready(150)], seconds=160)
        python = f"{boot.prefix}/bin/python"
        install = [
            f"{userdata.UV}/bin/uv",
            "pip",
            "install",
            "-q",
            "--python",
            python,
            "six",
        ]
        said = [
            session.run(command, seconds=60)
            for command in (["id", "-un"], ["sudo", "-n", "id", "-u"], install)
        ]

    assert (ready.status, ready.errors) == (0, "")
    assert [one.output.strip() for one in said[:2]] == ["workbench", "0"]
    assert said[2].status == 0, said[2].errors


def log_in(host: Host, known: str, key: str) -> SshSession:
    """Log in once its sshd lets one in."""

    def attempt() -> SshSession | None:
        with contextlib.suppress(MachineError):
            return open_session(host, [known], key)
        return None

    return until(attempt, what="a session", seconds=60, pause=0.5)


def test_no_machine_outlives_its_starter(bare: Debian) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "tests.rehearsal.programs.one_machine", str(bare.folder)],
        cwd=ROOT, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    ) as owner:  # fmt: skip
        assert owner.stdout is not None
        name, pid = owner.stdout.readline().split()
        lived = Path("/proc", str(pid), "root", "etc", "debian_version").exists()
        owner.kill()

    until(lambda: not psutil.pid_exists(int(pid)), what="the machine's end")
    remove_leftovers()

    assert lived
    assert not (PLACE / name).exists()
    assert not [one for one in psutil.process_iter(["cmdline"]) if is_of(one, name)]
    assert str(bare.folder) not in Path("/proc/mounts").read_text()


def is_of(process: psutil.Process, name: str) -> bool:
    return (process.info["cmdline"] or [])[-2:] == [str(BOOT), name]
