"""Simulate several hosts on one machine: namespaces on a bridge, with names, sshd and files.

The machine itself is on the bridge too, at the network's first address: from there a test reaches
every host, as a notebook reaches its nodes. Nothing leads from the bridge to anywhere else.
"""

from __future__ import annotations

import contextlib
import fcntl
import ipaddress
import itertools
import json
import os
import pwd
import random
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from tests.waiting import until

ROOT = Path(__file__).parents[2]
INIT = Path(__file__).with_name("init.py")
BOOT = Path(__file__).parent / "bare" / "boot.py"
PLACE = Path("/run/workbench-rehearsal")
LOCK = PLACE.with_suffix(".lock")
PREFIX = "wbr"
LISTENS = "0A"  # <net/tcp_states.h>
HOME = pwd.getpwuid(0).pw_dir
"""The home of the user who logs in to a host; each host has its own folder there."""
NEEDED = ("unshare", "nsenter", "ip", "tc", "ssh-keygen", "/usr/sbin/sshd", "pkill", "sudo")
# Long enough for a slow and busy machine; waits end as soon as they can.
END_SECONDS = 30.0
# Folders that each host has of its own, empty, so that files are not shared by accident.
PRIVATE = ("/tmp", "/var/tmp", "/dev/shm", str(Path.home()))
SSHD = """\
Port 22
ListenAddress {address}
HostKey {folder}/host_key
AuthorizedKeysFile {folder}/authorized_keys
PidFile none
UsePAM no
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin prohibit-password
StrictModes no
UseDNS no
MaxStartups 200
Subsystem sftp internal-sftp
{more}
"""

# What Debian uses. Where a machine's own default is BBR, each connection halts every ten
# seconds: 0.2 s in which it sends four packets at a time.
CONGESTION_CONTROL = "cubic"
# Networks to choose from: hosts' own, and the one kept for measuring networks, which is in no use.
NETWORKS, OUTER_NETWORKS = "10.64.0.0/10", "198.18.0.0/15"
UNKNOWN_CARD = "02:00:00:00:00:01"
"""The address of a network card that there is not."""
AVAILABLE = Path("/proc/sys/net/ipv4/tcp_available_congestion_control")

_numbers = itertools.count()


def why_not() -> str:
    """Return why there can be no hosts here; empty when there can."""
    if os.geteuid() != 0:
        return "namespaces need root"
    lacking = [program for program in NEEDED if shutil.which(program) is None]
    if lacking:
        return f"there is no {', '.join(lacking)}: make machines installs it"
    tried = subprocess.run(
        ["unshare", "--net", "--mount", "--pid", "--fork", "true"],
        check=False,
        capture_output=True,
        text=True,
    )
    return "" if tried.returncode == 0 else f"namespaces are not allowed: {tried.stderr.strip()}"


@dataclass(frozen=True)
class Disk:
    """What a host of its own disk has on it when it boots.

    Args:
        folder: What it writes comes there; made when the host starts, and removed with it.
        lower: Folders that lie over each other, the uppermost first; it changes none of them.
        files: Text by path, written before it boots.
        binds: Folders of this machine to where it sees them.
        environment: Of its process 1.
    """

    folder: Path
    lower: tuple[Path, ...]
    files: Mapping[str, str] = field(default_factory=dict)
    binds: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)


class RehearsalHost:
    """One host; made by `Hosts.start`.

    Args:
        folder: Its keys, sshd's configuration and log; seen from everywhere at this path.
        link: Name of this machine's end of its cable.
        init: Its process 1, or rather the program that made the namespaces.
        pid: Process 1 as this machine numbers it.
    """

    def __init__(
        self, name: str, address: str, folder: Path, link: str, init: subprocess.Popen[str]
    ) -> None:
        self.name = name
        self.address = address
        self.folder = folder
        self.link = link
        self.pid = 0
        self.disk: Path | None = None
        """What it has written, where its disk is its own."""
        self._init = init
        self._sshd: subprocess.Popen[str] | None = None

    def __repr__(self) -> str:
        return f"<RehearsalHost {self.name} {self.address}{'' if self.is_up else ', ended'}>"

    @property
    def is_up(self) -> bool:
        """Whether it runs; a host that was shut down from within does not."""
        return self._init.poll() is None

    @property
    def known_hosts(self) -> str:
        """The exact line by which its sshd is known."""
        kind, key, *_ = (self.folder / "host_key.pub").read_text().split()
        return f"{self.address} {kind} {key}"

    @property
    def log(self) -> str:
        """What its sshd said."""
        return (self.folder / "sshd.log").read_text()

    @property
    def console(self) -> str:
        """What its process 1 said, and with a disk of its own what booted on it."""
        return (self.folder / "init.log").read_text(errors="replace")

    def boot(self) -> None:
        """Let a host with a disk of its own boot; `Hosts.start` leaves it before that."""
        assert self._init.stdin is not None
        self._init.stdin.write("\n")
        self._init.stdin.flush()

    def command(self, *command: str) -> list[str]:
        """Return the command line that runs ``command`` on the host, for other ways to start it."""
        there = "--wd=/" if self.disk is None else "--wdns=/"
        return ["nsenter", "-t", str(self.pid), *["-n", "-u", "-i", "-p", "-m"], there, *command]

    def run(self, *command: str, input: str = "", seconds: float = 60.0) -> str:
        """Run a command on the host without ssh, and return what it wrote."""
        done = subprocess.run(
            self.command(*command),
            check=False,
            input=input,
            capture_output=True,
            text=True,
            timeout=seconds,
        )
        if done.returncode != 0:
            raise RuntimeError(f"{self.name}: {' '.join(command)}: {done.stderr or done.stdout}")
        return done.stdout

    def popen(self, *command: str, **options: Any) -> subprocess.Popen[str]:
        """Start a command on the host without ssh; it ends with the host at the latest."""
        return subprocess.Popen(self.command(*command), text=True, **options)

    def new_host_key(self, private: str = "") -> None:
        """Give the host a key, the given or a new one; the next ``start_sshd`` shows it."""
        path = self.folder / "host_key"
        for old in (path, path.with_suffix(".pub")):
            old.unlink(missing_ok=True)
        if private:
            path.touch(0o600)
            path.write_text(private)
            public = subprocess.run(
                ["ssh-keygen", "-y", "-f", path], check=True, capture_output=True, text=True
            )
            path.with_suffix(".pub").write_text(public.stdout)
        else:
            make_key(path)

    def authorize(self, *public: str) -> None:
        """Accept logins with these keys alone."""
        (self.folder / "authorized_keys").write_text("".join(f"{key.strip()}\n" for key in public))

    def start_sshd(self, more: str = "") -> None:
        """Start sshd in the place of the one that runs, and wait until it answers.

        Args:
            more: Lines added to its configuration.
        """
        self.stop_sshd()
        path = self.folder / "sshd_config"
        path.write_text(SSHD.format(address=self.address, folder=self.folder, more=more))
        log = self.folder / "sshd.log"
        self._sshd = self.popen(
            "/usr/sbin/sshd", "-D", "-E", str(log), "-f", str(path), stdin=subprocess.DEVNULL
        )
        until(
            self._answers,
            what=f"sshd of {self.name}",
            said=lambda: self.log if log.exists() else "",
        )

    def stop_sshd(self) -> None:
        """End sshd and all sessions with it."""
        if self._sshd is None:
            return
        subprocess.run(self.command("pkill", "-KILL", "-x", "sshd"), check=False)
        self._sshd.wait(END_SECONDS)
        self._sshd = None

    def cut(self) -> None:
        """Disconnect the host: nothing is sent or received, and no connection is closed."""
        ip(f"link set {self.link} down")

    def reconnect(self) -> None:
        """Put the cable back."""
        ip(f"link set {self.link} up")

    def shape(self, mbits: float) -> None:
        """Let no more through the cable than ``mbits`` (10⁶ bits a second), either way."""
        rate = ["root", "tbf", "rate", f"{mbits * 1e6:.0f}bit", "burst", "128kb", "latency", "50ms"]
        subprocess.run(["tc", "qdisc", "replace", "dev", self.link, *rate], check=True)
        self.run("tc", "qdisc", "replace", "dev", "eth0", *rate)

    def stop(self) -> None:
        """End it with all that runs on it, as when the power goes."""
        with contextlib.suppress(subprocess.CalledProcessError):
            ip(f"link del {self.link}", quiet=True)
        if self.is_up and self.pid:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, 9)
        assert self._init.stdin is not None
        assert self._init.stdout is not None
        self._init.stdin.close()
        self._init.wait(END_SECONDS)
        self._init.stdout.close()
        if self._sshd is not None:
            self._sshd.wait(END_SECONDS)
        shutil.rmtree(self.folder, ignore_errors=True)
        if self.disk is not None:
            subprocess.run(
                ["rm", "-rf", self.disk.parent], check=False
            )  # many files: not by Python

    def listens(self, port: int) -> bool:
        """Whether a process of the host accepts connections at a port."""
        _, *rows = Path("/proc", str(self.pid), "net", "tcp").read_text().splitlines()
        sockets = [row.split() for row in rows]
        return any(s[1].endswith(f":{port:04X}") and s[3] == LISTENS for s in sockets)

    def _answers(self) -> bool:
        with contextlib.suppress(OSError), socket.create_connection((self.address, 22), 2.0) as s:
            return s.recv(4) == b"SSH-"
        return False


class Hosts:
    """A network of this machine's own with ``count`` hosts on it; a context, at whose end all go.

    Args:
        network: Such as ``172.31.0.0/20``; one that is free when nothing is said.
        shared: Folders that are the same on the hosts as here, though they lie in a private one.
    """

    def __init__(
        self, count: int = 0, network: str = "", shared: Sequence[str | Path] = ()
    ) -> None:
        self._count = count
        self._wanted = network
        self._shared = [Path(path) for path in shared]
        self._hosts: list[RehearsalHost] = []
        self._links = itertools.count(1)
        self.name = f"{PREFIX}{os.getpid()}x{next(_numbers)}"
        self.folder = PLACE / self.name
        self.network = ipaddress.ip_network("127.0.0.0/8")
        self.address = ""
        """This machine's own on the network."""

    def __enter__(self) -> Hosts:
        remove_leftovers()
        try:
            self._open()
            for _ in range(self._count):
                self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __len__(self) -> int:
        return len(self._hosts)

    def __getitem__(self, index: int) -> RehearsalHost:
        return self._hosts[index]

    def __iter__(self) -> Iterator[RehearsalHost]:
        return iter(self._hosts)

    @property
    def key(self) -> str:
        """The private key that every host accepts, unless it has another."""
        return (self.folder / "key").read_text()

    @property
    def public_key(self) -> str:
        """The public half of ``key``."""
        return (self.folder / "key.pub").read_text()

    def start(
        self,
        name: str = "",
        address: str = "",
        *,
        host_key: str = "",
        authorized: Sequence[str] | None = None,
        layered: Sequence[str] = (),
        imds: str = "",
        sshd: bool = True,
        disk: Disk | None = None,
    ) -> RehearsalHost:
        """Start one more host.

        Args:
            host_key: A private key of sshd's, such as user-data brings; a new one by default.
            authorized: Public keys; by default the one of all hosts of this network.
            layered: Folders that look as they do here, but that the host may change for itself;
                ``/etc`` and ``/usr/sbin`` always are.
            imds: One more address of the host's, on its loopback: ``169.254.169.254``.
            sshd: Whether to start it; `RehearsalHost.start_sshd` does later.
            disk: Its own, in the place of this machine's. It is as it was made, without a key or
                sshd, until `RehearsalHost.boot`.
        """
        number = next(self._links)
        address = address or str(self.network[number + 1])
        name = name or f"node{number}"
        folder = self.folder / name
        folder.mkdir(mode=0o700)
        host = self._start_host(name, address, folder, layered, disk)
        self._hosts.append(host)
        self._connect(host, imds)
        if disk is not None:
            return host
        host.new_host_key(host_key)
        host.authorize(*([self.public_key] if authorized is None else authorized))
        if sshd:
            host.start_sshd()
        return host

    def stop(self, host: RehearsalHost) -> None:
        """End one host, and forget it."""
        self._hosts.remove(host)
        host.stop()
        self._write_names()

    def open_outer(self) -> ipaddress.IPv4Network:
        """Return a network that ends here: this machine's programs may listen at its addresses."""
        with _hold_lock():
            network = ipaddress.IPv4Network(_free_network(OUTER_NETWORKS))
            ip(
                f"addr add {network[1]}/{network.prefixlen} dev {self.name} noprefixroute",
                f"route add local {network} dev {self.name}",
            )
        return network

    def part(self, *hosts: RehearsalHost) -> None:
        """Let nothing through between this machine and hosts, which reach each other as before."""
        for host in hosts:
            ip(f"neigh replace {host.address} lladdr {UNKNOWN_CARD} dev {self.name} nud permanent")
            wrong = ["neigh", "replace", self.address, "lladdr", UNKNOWN_CARD]
            host.run("ip", *wrong, "dev", "eth0", "nud", "permanent")

    def rejoin(self, *hosts: RehearsalHost) -> None:
        """End what ``part`` has begun."""
        for host in hosts:
            ip(f"neigh del {host.address} dev {self.name}")
            host.run("ip", "neigh", "del", self.address, "dev", "eth0")

    def close(self) -> None:
        """End all."""
        for host in [*self._hosts]:
            self._hosts.remove(host)
            host.stop()
        with contextlib.suppress(subprocess.CalledProcessError):
            ip(f"link del {self.name}", quiet=True)
        shutil.rmtree(self.folder, ignore_errors=True)
        with _hold_lock(), contextlib.suppress(OSError):  # others are there
            PLACE.rmdir()

    def _open(self) -> None:
        own = psutil.Process()
        with _hold_lock():
            self.folder.mkdir(parents=True, mode=0o700)
            (self.folder / "owner").write_text(json.dumps([own.pid, own.create_time()]))
        make_key(self.folder / "key")
        self._write_names()
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
        with _hold_lock():
            self.network = ipaddress.ip_network(self._wanted or _free_network(NETWORKS))
            self.address = str(self.network[1])
            ip(
                f"link add {self.name} type bridge",
                f"addr add {self.address}/{self.network.prefixlen} dev {self.name}",
                f"link set {self.name} up",
                *self._congestion_routes(self.name, self.address),
            )

    def _start_host(
        self, name: str, address: str, folder: Path, layered: Sequence[str], disk: Disk | None
    ) -> RehearsalHost:
        """Start process 1 in namespaces of its own."""
        made = ["--net", "--uts", "--ipc", "--pid", "--mount", "--mount-proc", "--kill-child"]
        program = INIT if disk is None else BOOT
        with (folder / "init.log").open("w") as log:
            init = subprocess.Popen(
                ["unshare", *made, sys.executable, "-I", str(program), self.name],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                cwd="/",
                start_new_session=True,  # Control-C is for pytest, which ends the hosts itself
            )
        assert init.stdin is not None
        assert init.stdout is not None
        link = f"{PREFIX[:2]}{os.getpid()}v{next(_numbers)}"
        host = RehearsalHost(name, address, folder, link, init)
        wanted = {
            "name": name,
            "folder": str(folder),
            "hosts": str(self.folder / "hosts"),
            "private": PRIVATE,
            "shared": self._find_hidden(),
            "layered": list(layered),
        }
        if disk is not None:
            host.disk = disk.folder / "upper"
            host.disk.mkdir(parents=True)
            wanted |= {
                "disk": str(disk.folder),
                "lower": [str(path) for path in disk.lower],
                "files": dict(disk.files),
                "binds": dict(disk.binds),
                "environment": dict(disk.environment),
            }
        init.stdin.write(json.dumps(wanted) + "\n")
        init.stdin.flush()
        if init.stdout.readline() != "up\n":
            said = (folder / "init.log").read_text()
            host.stop()
            raise RuntimeError(f"{name} did not start: {said}")
        host.pid = psutil.Process(init.pid).children()[0].pid
        (folder / "pid").write_text(str(host.pid))
        return host

    def _connect(self, host: RehearsalHost, imds: str) -> None:
        ip(
            f"link add {host.link} type veth peer name eth0 netns {host.pid}",
            f"link set {host.link} master {self.name} up",
        )
        lines = [
            "link set lo up",
            f"addr add {host.address}/{self.network.prefixlen} dev eth0",
            "link set eth0 up",
            *self._congestion_routes("eth0", host.address),
        ]
        if imds:
            lines.append(f"addr add {imds}/32 dev lo")
        host.run("ip", "-batch", "-", input="\n".join(lines))
        self._write_names()

    def _congestion_routes(self, device: str, address: str) -> list[str]:
        """Return what has connections through a device use nodes' congestion control.

        A namespace may not choose all that there are, but a route may.
        """
        if CONGESTION_CONTROL not in AVAILABLE.read_text().split():
            return []
        there = f"{self.network} dev {device} proto kernel scope link src {address}"
        return [f"route change {there} congctl {CONGESTION_CONTROL}"]

    def _write_names(self) -> None:
        """Tell every host every name: the file is written in place, because it is mounted there."""
        lines = ["127.0.0.1 localhost", *(f"{host.address} {host.name}" for host in self._hosts)]
        (self.folder / "hosts").write_text("\n".join(lines) + "\n")

    def _find_hidden(self) -> list[str]:
        """Return what our Python needs and a private folder hides."""
        wanted = {Path(sys.prefix), Path(sys.base_prefix), ROOT, *self._shared}
        hidden = [p for p in wanted if any(p.is_relative_to(private) for private in PRIVATE)]
        return sorted(
            str(p) for p in hidden if not any(q != p and p.is_relative_to(q) for q in hidden)
        )


def remove_leftovers() -> None:
    """Remove what killed sessions have left: their processes, bridges and files, by name."""
    with _hold_lock():
        for folder in PLACE.glob(f"{PREFIX}*"):
            if not _is_owned(folder):
                _remove(folder)
        with contextlib.suppress(OSError):  # it is not there, or others are in it
            PLACE.rmdir()


def _is_owned(folder: Path) -> bool:
    """Whether the process that made a folder still runs."""
    with contextlib.suppress(OSError, ValueError, psutil.Error):
        pid, created = json.loads((folder / "owner").read_text())
        return psutil.Process(pid).create_time() == created
    return False


def _remove(folder: Path) -> None:
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.cmdline()[-2:] in [[str(INIT), folder.name], [str(BOOT), folder.name]]:
                process.kill()
    with contextlib.suppress(subprocess.CalledProcessError):
        ip(f"link del {folder.name}", quiet=True)
    shutil.rmtree(folder, ignore_errors=True)


def make_key(path: Path, kind: str = "ed25519") -> None:
    """Make a key pair at ``path`` and beside it."""
    subprocess.run(
        ["ssh-keygen", "-q", "-t", kind, "-N", "", "-C", "rehearsal", "-f", path], check=True
    )


def ip(*lines: str, quiet: bool = False) -> None:
    """Have ``ip`` do several things in one go."""
    subprocess.run(
        ["ip", "-batch", "-"],
        input="\n".join(lines),
        text=True,
        check=True,
        stderr=subprocess.DEVNULL if quiet else None,
    )


@contextlib.contextmanager
def _hold_lock() -> Iterator[None]:
    """Keep other sessions from choosing a network, or removing folders, at the same time."""
    with LOCK.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _free_network(block: str) -> str:
    """Return a network of 254 addresses in a block that no interface of this machine is in."""
    taken = [
        ipaddress.ip_network(f"{address.address}/{address.netmask}", strict=False)
        for addresses in psutil.net_if_addrs().values()
        for address in addresses
        if address.family is socket.AF_INET and address.netmask
    ]
    # Not the session's seeded numbers: two sessions with one seed would meet.
    draw, all_ = random.SystemRandom(), ipaddress.ip_network(block)
    while True:
        first = all_[256 * draw.randrange(all_.num_addresses // 256)]
        network = ipaddress.ip_network(f"{first}/24")
        if not any(network.overlaps(other) for other in taken):
            return str(network)
