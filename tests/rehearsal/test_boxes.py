"""Bare hosts: nothing but an sshd, other homes, users and ports, and names that only ssh knows."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from tests.rehearsal.bare import debian
from tests.rehearsal.bare.debian import Debian
from tests.rehearsal.bare.mirror import Mirror
from tests.rehearsal.hosts import Hosts, RehearsalHost
from tests.waiting import until
from workbench.cloud.hosts.box import UV_NAME, BoxPlace
from workbench.core.world.known_hosts import fingerprint
from workbench.requests.supervisor import supervisor_pid
from workbench.store.paths import OWNER_NAME, owner_id

pytestmark = [pytest.mark.root, pytest.mark.mpi, pytest.mark.timeout(600)]

NAME = "boxes"
WORKBENCH = Path(sys.executable).with_name("workbench")
PORT = 2222
GATE, PRIVATE = "gate", "192.168.77"
# What runs on a box for a cluster, wherever its files are.
OURS = re.compile(r"workbench\.(node|cluster|engine)|prted|prterun|mpiexec")
WHERE = """\
from mpi4py import MPI
import os, socket, sys
world = MPI.COMM_WORLD
print("rank", world.rank, "of", world.allreduce(1), "on", socket.gethostname(), sys.executable,
      os.path.expanduser("~"))
"""


class Person:
    """A person at a shell with two hosts in their ssh configuration, and their home directory."""

    def __init__(
        self, home: Path, hosts: Hosts, users: Mapping[str, str], jumps: Collection[str] = ()
    ) -> None:
        self.home = home
        self.data = Path(os.environ["WORKBENCH_HOME"])
        self.script = home / "where.py"
        self.script.write_text(WHERE)
        folder = home / ".ssh"
        folder.mkdir(mode=0o700)
        (folder / "id_ed25519").touch(0o600)
        (folder / "id_ed25519").write_text(hosts.key)
        blocks = [
            f"Host {host.name}\n HostName {host.address}\n Port {port_of(host)}\n"
            f" User {users.get(host.name, 'root')}\n"
            + (f" ProxyJump {GATE}\n" if host.name in jumps else "")
            for host in hosts
        ]
        (folder / "config").write_text("".join(blocks))
        keys = {host.name: self.scan(host) for host in hosts}
        keys.pop(GATE, None)
        prints = [fingerprint(key) for shown in keys.values() for key in shown]
        self.accepted = [word for one in prints for word in ("--accept-keys", one)]
        self.names = ",".join(keys)

    @property
    def environment(self) -> dict[str, str]:
        """What their shell has."""
        return {**os.environ, "HOME": str(self.home), "WORKBENCH_HOME": str(self.data)}

    @property
    def place(self) -> BoxPlace:
        """Where their cluster is on a host."""
        if self.data == Path(os.environ["WORKBENCH_HOME"]):
            return BoxPlace(NAME, owner_id())
        return BoxPlace(NAME, (self.data / OWNER_NAME).read_text().strip())

    def know(self, gate: RehearsalHost) -> None:
        """Trust a jump host from now on, as who has logged in to it before."""
        (self.home / ".ssh/known_hosts").write_text("".join(f"{key}\n" for key in self.scan(gate)))

    def scan(self, host: RehearsalHost) -> list[str]:
        """Return the lines of known_hosts that a host shows, one for each kind of key."""
        command = ["ssh-keyscan", "-p", str(port_of(host)), host.address]
        lines: list[str] = until(
            lambda: [
                line
                for line in subprocess.run(
                    command, check=False, capture_output=True, text=True
                ).stdout.splitlines()
                if not line.startswith("#")
            ],
            what=f"the key of {host.name}",
        )
        return lines

    def do(self, *words: str, seconds: float = 400.0, fails: bool = False) -> str:
        """Run a command to its end, and return what it said."""
        done = subprocess.run(
            [WORKBENCH, words[0], "--cluster", NAME, *words[1:]],
            check=False, capture_output=True, text=True, stdin=subprocess.DEVNULL,
            timeout=seconds, cwd=self.home, env=self.environment,
        )  # fmt: skip
        assert (done.returncode != 0) is fails, f"{words}\n{done.stdout}{done.stderr}{self.log()}"
        return done.stdout + done.stderr

    def up(self, *more: str, fails: bool = False) -> str:
        """Ask for the hosts, equipped."""
        given = ("--hosts", self.names, "--equip", "--yes", "--min-nodes", "2", *self.accepted)
        return self.do("up", *given, *more, fails=fails)

    def run(self) -> list[tuple[str, ...]]:
        """Return where each rank was: host, Python and home directory."""
        said = self.do("run", str(self.script), seconds=120)
        return sorted(re.findall(r"rank (\d+) of (\d+) on (\S+) (\S+) (\S+)", said))

    def log(self) -> str:
        """Return what the supervisor said."""
        path = self.data / "clusters" / NAME / "supervisor.log"
        return path.read_text() if path.exists() else ""


def port_of(host: RehearsalHost) -> int:
    return PORT if host.name == "box2" and host.disk is not None else 22


@pytest.fixture
def person(
    possible: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[..., Person]]:
    """Make the person who knows the hosts of a network; end their cluster in the end."""
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    made: list[Person] = []

    def make(
        hosts: Hosts, users: Mapping[str, str] | None = None, jumps: Collection[str] = ()
    ) -> Person:
        home = tmp_path / f"person{len(made)}"
        home.mkdir()
        made.append(Person(home, hosts, users or {}, jumps))
        if len(made) > 1:
            made[-1].data = home / "data"
            made[-1].data.mkdir(0o700)
            (made[-1].data / OWNER_NAME).write_text(f"{len(made):08x}\n")
        return made[-1]

    yield make
    for one in made:
        if one.log():
            ending = [WORKBENCH, "delete", "--cluster", NAME]
            subprocess.run(ending, check=False, timeout=120, env=one.environment)


def test_hosts_behind_a_jump_host_that_reach_each_other_privately_run_one_world_and_keep_nothing(
    person: Callable[..., Person],
) -> None:
    with Hosts() as hosts:
        boxes = [hosts.start(name) for name in ("box1", "box2")]
        gate = hosts.start(GATE)
        someone = person(hosts, jumps={"box2"})
        for box in boxes:
            give_environment(box, someone.place)
        join_privately(*boxes)
        # The addresses of ssh do not lead from box to box, nor from here to box2.
        for box, other in (boxes, boxes[::-1]):
            box.run("ip", "route", "add", "unreachable", other.address)
        boxes[1].run("ip", "route", "add", "unreachable", hosts.address)
        refused = someone.up(fails=True)
        someone.know(gate)
        ready = someone.up("--lease", "1m")
        ranks = someone.run()

        assert (
            f"box2 cannot be reached by ssh (Host key is not trusted for host {gate.address})"
            in (refused)
        )
        assert "try `ssh box2 true`" in refused
        place = someone.place
        assert {host for _, _, host, _, _ in ranks} == {"box1", "box2"}
        assert {python for *_, python, _ in ranks} == {place.python}
        assert f"{PRIVATE}.2" in someone.do("status")
        measured = r"Network box\d–box\d: .*s there and back, .*B/s"
        assert re.search(measured, ready)
        assert re.search(measured, someone.do("status"))
        assert {int(size) for _, size, *_ in ranks} == {len(ranks)}
        for host in boxes:
            assert "workbench.node.lease" in processes(host)
        purged = someone.do("delete", "--purge")

        assert "removed from 2 hosts" in purged
        for host in boxes:
            until(
                lambda host=host: place.common not in processes(host),
                what="no process",
                said=lambda: "",
            )
            host.run("sh", "-c", f"! test -e {place.common} && ! test -e ~/.workbench")


@pytest.mark.weekly
def test_two_persons_clusters_of_one_name_share_boxes_and_the_end_of_one_leaves_the_other(
    person: Callable[..., Person],
) -> None:
    with Hosts() as hosts:
        boxes = [hosts.start(name) for name in ("box1", "box2")]
        one, other = person(hosts), person(hosts)
        for box in boxes:
            for someone in (one, other):
                give_environment(box, someone.place)
        for someone in (one, other):
            someone.up("--slots", "1")
        other.script.write_text(f"{WHERE}import time; time.sleep(600)\n")
        other.do("run", "--background", str(other.script))
        first = one.run()
        until(
            lambda: "rank 1" in other.do("logs"),
            what="the other's ranks",
            said=other.log,
            seconds=120,
        )
        purged = one.do("delete", "--purge")

        assert {python for *_, python, _ in first} == {one.place.python}
        assert "removed from 2 hosts" in purged
        for box in boxes:
            found = processes(box)
            assert one.place.common not in found
            assert f"{other.place.python} -m workbench.node.lease" in found
            box.run("sh", "-c", f"! test -e ~/{one.place.folder} && test -e ~/{other.place.folder}")
        assert "running" in other.do("status")
        other.do("stop", seconds=120)
        other.do("delete", "--purge")
        for box in boxes:
            box.run("sh", "-c", "! test -e ~/.workbench")


@pytest.mark.weekly
def test_boxes_whose_person_is_gone_end_all_processes_of_ours_with_the_lease(
    person: Callable[..., Person],
) -> None:
    with Hosts() as hosts:
        boxes = [hosts.start(name) for name in ("box1", "box2")]
        someone = person(hosts)
        for box in boxes:
            give_environment(box, someone.place)
        someone.up("--lease", "1m")
        someone.script.write_text(f"{WHERE}while True: pass\n")
        someone.do("run", "--background", str(someone.script))
        until(
            lambda: "rank 1" in someone.do("logs"), what="the ranks", said=someone.log, seconds=120
        )
        for pid in keepers(someone):
            os.kill(pid, signal.SIGKILL)
        for box in boxes:
            box.cut()

        common = someone.place.common
        for box in boxes:
            assert f"{common}/env/bin/python" in processes(box)
        for box in boxes:
            until(lambda box=box: common not in processes(box), what="the end", seconds=180)
            assert not OURS.search(processes(box))
            box.reconnect()


@pytest.mark.weekly
def test_bare_boxes_are_equipped_train_start_again_at_once_and_lose_all_of_it(
    person: Callable[..., Person], debians: Callable[..., Debian]
) -> None:
    users = {"box1": "ann", "box2": "ben"}
    base = debians(debian.release_with(sys.version_info[:2]), (*debian.BOX, "python3"))
    registries = debian.registries(base)
    with (
        Hosts() as hosts,
        Mirror(hosts.address, registries, base.packages, debian.proxies()) as mirror,
    ):
        for name, user in users.items():
            boot_box(hosts, base, mirror.url, name, user)
        someone = person(hosts, users)
        someone.up()
        ranks = someone.run()
        assert {(host, home) for _, _, host, _, home in ranks} == {
            ("box1", "/srv/ann"), ("box2", "/srv/ben"),
        }  # fmt: skip
        someone.do("delete")

        before = mirror_log(hosts)
        someone.up()
        assert len(someone.run()) == len(ranks)
        assert mirror_log(hosts) == before

        someone.do("delete", "--purge")
        for host in hosts:
            left = host.run("sh", "-c", f"ls -A /srv/{users[host.name]}; ls -A /tmp")
            # What runs have written is the person's.
            assert not {".workbench", Path(someone.place.common).name} & {*left.split()}


@pytest.mark.weekly
def test_a_box_whose_python_does_not_fit_says_which_host_it_needs(
    person: Callable[..., Person], debians: Callable[..., Debian]
) -> None:
    base = debians(debian.release_with(sys.version_info[:2]), (*debian.BOX, "python3"))
    with Hosts() as hosts, Mirror(hosts.address, set(), base.packages, {}) as mirror:
        box = boot_box(hosts, base, mirror.url, "box1", "ann")
        box.run("sh", "-c", "rm -f /usr/bin/python3*")
        someone = person(hosts, {"box1": "ann"})
        given = ("--host", "box1", "--equip", "--yes", "--no-wait", *someone.accepted)
        someone.do("up", *given)
        said = until(
            lambda: re.search(r"was not set up: it could not reach \S+", someone.do("status")),
            what="the reason", seconds=200,
        )  # fmt: skip

    assert said


def boot_box(hosts: Hosts, base: Debian, proxy: str, name: str, user: str) -> RehearsalHost:
    """Boot a host that has an sshd, and a user with a home directory of its own."""
    disk = base.disk(f"{hosts.name}-{name}", proxy)
    files = {**disk.files, "/etc/ssh/sshd_config.d/port.conf": f"Port {PORT}\n"}
    host = hosts.start(name, disk=replace(disk, files=files) if name == "box2" else disk)
    home = f"/srv/{user}"
    host.run("useradd", "--create-home", "--home-dir", home, "--shell", "/bin/sh", user)
    script = f"umask 077; mkdir {home}/.ssh; cat > {home}/.ssh/authorized_keys"
    host.run("sh", "-c", f"{script}; chown -R {user}: {home}", input=hosts.public_key)
    host.boot()
    return host


def join_privately(one: RehearsalHost, other: RehearsalHost) -> None:
    """Lay a cable between two hosts alone."""
    ends = [["eth1", "netns", str(host.pid)] for host in (one, other)]
    made = ["ip", "link", "add", *ends[0], "type", "veth", "peer", "name", *ends[1]]
    subprocess.run(made, check=True)
    for number, host in enumerate((one, other), 1):
        host.run("ip", "addr", "add", f"{PRIVATE}.{number}/24", "dev", "eth1")
        host.run("ip", "link", "set", "eth1", "up")


def keepers(someone: Person) -> list[int]:
    """Return a cluster's supervisor and what would start it again, this first."""
    watchdogs = [
        one.pid
        for one in psutil.process_iter(["cmdline"])
        if f"{someone.data}/clusters/{NAME}" in (one.info["cmdline"] or ())
    ]
    return [*watchdogs, supervisor_pid(NAME)]


def mirror_log(hosts: Hosts) -> list[str]:
    """Return the sizes of what each host has fetched."""
    return [host.run("sh", "-c", "ls /srv/*/.workbench/cache/archive-v0 | wc -l") for host in hosts]


def give_environment(host: RehearsalHost, place: BoxPlace) -> None:
    """Have this environment on a host, as if it had been equipped before."""
    version = "{}.{}".format(*sys.version_info)
    folder = f"$HOME/{place.folder}"
    host.run(
        "sh", "-ec",
        f'umask 077; mkdir -p "{folder}"; ln -s {sys.prefix} "{folder}/env"\n'
        f'touch "{folder}/made-{version}"; cp /bin/true "$HOME/.workbench/{UV_NAME}"',
    )  # fmt: skip


def processes(host: RehearsalHost) -> str:
    """Return the command lines on a host."""
    return host.run("sh", "-c", "cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' ' '; true")
