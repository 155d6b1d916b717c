"""Start the rehearsal's EC2 as a process, and control its market."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

import psutil

from tests.rehearsal.hosts import PLACE

ROOT = Path(__file__).parents[3]
END_SECONDS = 30.0
OUTSIDE = "203.0.113.7"  # what nodes would see of a home
# Disks are removed with it.
BARE_END_SECONDS = 120.0


class Endpoint:
    """The rehearsal's EC2; a context, at whose end it is gone.

    Args:
        machines: Whether each instance has a host.
        far: Whether hosts have public addresses, and this machine reaches them as a home does: by
            a `tests.rehearsal.relay.Relay`.
        bare: Folder of `tests.rehearsal.bare.debian.Debian`, made: each host has its own disk.
    """

    def __init__(
        self, *, machines: bool = False, far: bool = False, bare: Path | None = None
    ) -> None:
        self._far = far
        self._options = ["--machines"] if machines else []
        self._options += ["--far"] if far else []
        self._options += ["--bare", str(bare)] if bare else []
        self._end_seconds = BARE_END_SECONDS if bare else END_SECONDS
        self._process: subprocess.Popen[str] | None = None
        self.url = ""

    def __enter__(self) -> Endpoint:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.rehearsal.ec2.server", *self._options],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        assert self._process.stdout is not None
        port = self._process.stdout.readline().strip()
        if not port:
            self.__exit__()
            raise RuntimeError("the rehearsal's EC2 did not start; what it said is above")
        self.url = f"http://127.0.0.1:{port}"
        return self

    def __exit__(self, *exception: object) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(self._end_seconds)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()

    @property
    def pid(self) -> int:
        """The process that it is."""
        assert self._process is not None
        return self._process.pid

    @property
    def ssh_source(self) -> str:
        """This machine's own address in the network of the instances' hosts, or a public one."""
        if self._far:
            return OUTSIDE
        return next(
            address.address
            for name, addresses in psutil.net_if_addrs().items()
            if name.startswith(f"wbr{self.pid}x")
            for address in addresses
            if address.family is socket.AF_INET
        )

    def expire(self, *keys: str) -> None:
        """Let access keys expire; calls that are signed with one are refused from now on."""
        self._do("expire", *keys)

    def know(self, *keys: str) -> None:
        """Know these access keys and no others."""
        self._do("know", *keys)

    def throttle(self, action: str, calls: float, refill: float) -> None:
        """Set how many calls of an action are taken at once, and how many more each second."""
        self._do("throttle", action, calls, refill)

    @property
    def roots(self) -> list[Path]:
        """The root folders of its machines that run, as they themselves see them."""
        pids = [path.read_text() for path in PLACE.glob(f"wbr{self.pid}x*/*/pid")]
        return [Path("/proc", pid, "root") for pid in pids]

    def pool(self, type: str, zone: str, free: int, close: int | None = None) -> None:
        """Set how many machines of a type a zone has left, and of them close together."""
        self._do("pool", type=type, zone=zone, free=free, close=close)

    def price(self, type: str, zone: str, dollars: float) -> None:
        """Set the price from now on."""
        self._do("price", type=type, zone=zone, dollars=dollars)

    def quota(self, code: str, vcpus: int) -> None:
        """Set a quota."""
        self._do("quota", code=code, vcpus=vcpus)

    def fail(
        self, action: str, code: str, message: str = "", *, times: int = 1, after: bool = False
    ) -> None:
        """Have calls of an action fail: -1 times for always; after they were carried out or not."""
        self._do("fail", action=action, code=code, message=message, times=times, after=after)

    def deny(self, action: str) -> None:
        """Have an action not permitted."""
        message = f"User: arn:aws:iam::123456789012:user/me is not authorized to: ec2:{action}"
        self.fail(action, "UnauthorizedOperation", message, times=-1)

    def clear_faults(self) -> None:
        """End all faults."""
        self._do("clear_faults")

    def refuse(self, *errors: tuple[str, str]) -> None:
        """Have the next CreateFleet answer with a 200 that has errors alone."""
        self._do("refuse", errors=errors)

    def interrupt(self, id: str, seconds: float = 120.0) -> None:
        """Reclaim a machine; its notice comes so many seconds before."""
        self._do("interrupt", id=id, seconds=seconds)

    def rebalance(self, id: str) -> None:
        """Recommend to leave a machine."""
        self._do("rebalance", id=id)

    def shut_down(self, id: str) -> None:
        """Have a machine shut itself down."""
        self._do("shut_down", id=id)

    def part(self) -> None:
        """Let nothing through between this machine and hosts that are far."""
        self._do("part")

    def rejoin(self, *, elsewhere: bool = False) -> None:
        """End what ``part`` has begun; from another network, only new connections go through."""
        self._do("rejoin", elsewhere=elsewhere)

    def subnets(self, *, public: bool) -> None:
        """Set whether the subnets give public addresses."""
        self._do("subnets", public=public)

    def settings(self, **values: Any) -> None:
        """Set how long things take: lag, boot, ending, late; and how far its clock is ahead."""
        self._do("settings", **values)

    def calls(self) -> list[tuple[str, dict[str, Any]]]:
        """Return the calls of EC2 since the last reset: action and parameters."""
        return [(action, params) for action, params in self._do("calls")]

    def machines(self) -> list[dict[str, Any]]:
        """Return all machines as they are: id, state, tags, and whether a notice was given."""
        return list(self._do("machines"))

    def instance(self, id: str) -> dict[str, Any]:
        """Return what DescribeInstances does not tell of an instance."""
        found: dict[str, Any] = self._do("instance", id=id)
        return found

    def reset(self) -> None:
        """Forget everything."""
        self._do("reset")

    def _do(self, deed: str, *args: Any, **what: Any) -> Any:
        asked = json.dumps({"do": deed, "args": args, "with": what}).encode()
        request = urllib.request.Request(f"{self.url}/rehearsal", asked)
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return json.loads(answer.read())
        except urllib.error.HTTPError as error:
            raise RuntimeError(error.read().decode()) from error
