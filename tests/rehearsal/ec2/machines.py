"""Create a host for each instance of the rehearsal, which executes its user-data."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from tests.rehearsal.bare import debian
from tests.rehearsal.bare.debian import Debian
from tests.rehearsal.bare.mirror import Mirror
from tests.rehearsal.ec2 import images, imds, instances
from tests.rehearsal.ec2.market import MARKET
from tests.rehearsal.hosts import PLACE, Hosts, RehearsalHost
from tests.rehearsal.relay import Relay
from tests.waiting import until
from workbench.cloud.rented import userdata

HOST_KEY = "/etc/ssh/ssh_host_ed25519_key"
# What a node has on its own disk, though here it is this machine's.
LAYERED = ("/home", "/opt", "/var/log", "/var/lib")
ON_DISK = f"/etc /home {Path.home()} /var/log /var/lib/cloud /var/lib/systemd"
LOOK_SECONDS = 0.1
AT_ONCE = 4
RUN = Path("/run/workbench")  # shared with this machine, so each host gets one of its own
MAC = "02:00:00:00:00:01"
FIRST = 10  # the network's first addresses are the bridge's and unused ones


class Machines:
    """The hosts of all instances; a context, at whose end all are gone.

    Args:
        base: Debian, for machines with disks of their own; without it they share this one's.
        relay: What carries ssh to their public addresses, which are out of reach without it.
    """

    def __init__(self, base: Debian | None = None, relay: Relay | None = None) -> None:
        self._base = base
        self._relay = relay
        self._mirror: Mirror | None = None
        self._hosts = Hosts()
        self._found: dict[str, RehearsalHost] = {}
        self._reported: dict[str, str] = {}
        self._ready: set[str] = set()
        self._count = 0
        self._closing = threading.Event()
        self._pool = ThreadPoolExecutor(AT_ONCE)
        self._watcher = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Machines:
        self._hosts.__enter__()
        RUN.mkdir(exist_ok=True)
        if self._base is not None:
            hosts, kept = debian.registries(self._base), self._base.packages
            self._mirror = Mirror(self._hosts.address, hosts, kept, debian.proxies())
            self._mirror.__enter__()
        instances.on_launch.append(self._launch)
        instances.on_end.append(self._end)
        instances.on_address.append(self._address)
        if self._relay is not None:
            self._outer = self._hosts.open_outer()
            instances.on_public.append(partial(self._public, self._relay))
        images.on_image.append(self._image)
        instances.is_ready.append(self._ready.__contains__)
        self._watcher.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._closing.set()
        self._watcher.join()
        self._pool.shutdown(cancel_futures=True)
        self._hosts.close()
        if self._mirror is not None:
            self._mirror.__exit__()
        if not any(path.is_dir() for path in PLACE.glob("*")):
            with contextlib.suppress(OSError):
                RUN.rmdir()

    def _address(self) -> str:
        self._count += 1
        return str(self._hosts.network[FIRST + self._count])

    def _public(self, relay: Relay, private: str) -> str:
        """Return the public address of a machine, at which the relay listens for it."""
        public = str(self._outer[FIRST + self._count])
        relay.forward((public, 22), (private, 22))
        return public

    def _image(self, image: str, id_: str) -> None:
        """Take a node's disk as it is at this moment."""
        if self._base is not None:
            self._base.keep(image, self._found[id_])
            return
        names = "--exclude=/etc/hosts --exclude=/etc/hostname"
        there = f"$(ls -d {ON_DISK} 2>/dev/null)"
        tar = f"tar -P --one-file-system {names} -cf {self._picture(image)} {there}"
        self._found[id_].run("sh", "-c", tar)

    def _picture(self, image: str) -> Path:
        return PLACE / self._hosts.name / f"{image}.tar"

    def _launch(self, instance: Any, now: float) -> None:
        data = instances.user_data(instance)
        self._pool.submit(self._boot, instance, data).add_done_callback(_tell)

    def _end(self, id_: str) -> None:
        self._ready.discard(id_)
        if host := self._found.pop(id_, None):
            self._pool.submit(self._hosts.stop, host).add_done_callback(_tell)

    def _boot(self, instance: Any, data: str) -> None:
        name = f"ip-{instance.private_ip_address.replace('.', '-')}"
        host = self._bare(name, instance) if self._base else self._sharing(name, instance)
        self._tell_metadata(instance, host)
        with MARKET.lock:
            if instance.state != "pending":  # ended before it was up
                self._pool.submit(self._hosts.stop, host)
                return
            self._found[instance.id] = host
        if self._base is None:
            host.popen(sys.executable, "-I", imds.__file__, str(_metadata(host)))
            until(lambda: host.listens(imds.PORT), what=f"metadata service of {name}")
            carry_out(host, data)
        else:
            serve_metadata(host)
            host.boot()
        self._ready.add(instance.id)

    def _sharing(self, name: str, instance: Any) -> RehearsalHost:
        """Start a host that sees this machine's disk, and what its image adds to it."""
        host = self._hosts.start(
            name,
            instance.private_ip_address,
            authorized=(),
            layered=LAYERED,
            imds=imds.ADDRESS,
            sshd=False,
        )
        host.run("mount", "-t", "tmpfs", "rehearsal", str(RUN))
        # It shares this machine's environment, where a rented node has its own.
        host.run("mkdir", "-p", userdata.FOLDER)
        host.run("ln", "-sfn", sys.prefix, userdata.PREFIX)
        if (disk := self._picture(instance.image_id)).exists():
            host.run("tar", "-P", "-xpf", str(disk))
        return host

    def _bare(self, name: str, instance: Any) -> RehearsalHost:
        """Start a host on its image's disk, or on Debian's base; it boots when it is let."""
        assert self._base is not None
        assert self._mirror is not None
        picture = self._base.images / instance.image_id
        disk = self._base.disk(
            f"{self._hosts.name}-{instance.id}",
            self._mirror.url,
            picture if picture.exists() else None,
        )
        return self._hosts.start(name, instance.private_ip_address, imds=imds.ADDRESS, disk=disk)

    def _watch(self) -> None:
        """Tell each machine what is said of it, and EC2 which machines have shut down."""
        while not self._closing.wait(LOOK_SECONDS):
            with MARKET.lock:
                for id_, host in list(self._found.items()):
                    instance = instances.instance_of(id_)
                    if host.is_up:
                        self._tell_metadata(instance, host)
                    else:
                        instances.begin_end(instance)
                    instances.settle(instance.ec2_backend)

    def _tell_metadata(self, instance: Any, host: RehearsalHost) -> None:
        text = json.dumps(metadata(instance))
        if self._reported.get(instance.id) != text:
            self._reported[instance.id] = text
            new = _metadata(host).with_suffix(".new")
            new.write_text(text)
            os.replace(new, _metadata(host))


def serve_metadata(host: RehearsalHost) -> subprocess.Popen[bytes]:
    """Serve it on a bare host's network and among its processes, until the host's end."""
    enter = ["nsenter", "-t", str(host.pid), "-n", "-p"]
    serve = [sys.executable, "-I", imds.__file__, str(_metadata(host))]
    return subprocess.Popen([*enter, *serve], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)


def metadata(instance: Any) -> dict[str, str]:
    """Return what the metadata service says, by path."""
    address = instance.private_ip_address
    zone = instance.availability_zone
    name = f"ip-{address.replace('.', '-')}.ec2.internal"
    card = f"meta-data/network/interfaces/macs/{MAC}"
    known = {
        "meta-data/ami-id": instance.image_id,
        "meta-data/ami-launch-index": "0",
        "meta-data/hostname": name,
        "meta-data/instance-action": "none",
        "meta-data/instance-id": instance.id,
        "meta-data/instance-life-cycle": "spot",
        "meta-data/instance-type": instance.instance_type,
        "meta-data/local-hostname": name,
        "meta-data/local-ipv4": address,
        "meta-data/mac": MAC,
        "meta-data/placement/availability-zone": zone,
        "meta-data/placement/region": zone[:-1],
        "meta-data/services/domain": "amazonaws.com",
        "meta-data/services/partition": "aws",
        f"{card}/device-number": "0",
        f"{card}/local-ipv4s": address,
        f"{card}/mac": MAC,
        "dynamic/instance-identity/document": json.dumps(
            {
                "accountId": "123456789012", "architecture": "x86_64", "availabilityZone": zone,
                "imageId": instance.image_id, "instanceId": instance.id,
                "instanceType": instance.instance_type, "privateIp": address, "region": zone[:-1],
                "version": "2017-09-30",
            }
        ),
        "user-data": instances.user_data(instance),
    }  # fmt: skip
    if at := MARKET.notices.get(instance.id):
        known["meta-data/spot/instance-action"] = json.dumps(
            {"action": "terminate", "time": _time(at)}
        )
        known["meta-data/spot/termination-time"] = _time(at)
    if at := MARKET.rebalances.get(instance.id):
        known["meta-data/events/recommendations/rebalance"] = json.dumps({"noticeTime": _time(at)})
    return known


def carry_out(host: RehearsalHost, data: str) -> None:
    """Do what cloud-init would do with user-data such as ours, in its order."""
    config = json.loads(data.removeprefix("#cloud-config\n") or "{}")
    for command in config.get("bootcmd", ()):
        _run_detaching(host, command)
    doors = [_make_user(host, user) for user in config.get("users", ())]
    keys = config.get("ssh_keys", {})
    if keys:
        _write(host, HOST_KEY, keys["ed25519_private"])
        _write(host, f"{HOST_KEY}.pub", keys["ed25519_public"])
        for ending in ("", ".pub"):
            path = host.folder / f"host_key{ending}"
            path.unlink()
            path.symlink_to(f"{HOST_KEY}{ending}")
    host.start_sshd("\n".join(doors))
    for command in config.get("runcmd", ()):
        _run_detaching(host, command)


def _make_user(host: RehearsalHost, user: dict[str, Any]) -> str:
    """Make a user who may log in with these keys; return the settings that sshd needs."""
    name, keys = user["name"], "".join(f"{key}\n" for key in user["ssh_authorized_keys"])
    if name == "root":
        host.authorize(keys)
        return ""
    host.run("useradd", "--create-home", "--password", "*", "--shell", user["shell"], name)
    path = f"/home/{name}/.ssh/authorized_keys"
    host.run("install", "-d", "-m", "700", "-o", name, f"/home/{name}/.ssh")
    _write(host, path, keys)
    host.run("chown", name, path)
    if sudo := user.get("sudo"):
        host.run("mkdir", "-p", "/etc/sudoers.d")
        _write(host, f"/etc/sudoers.d/{name}", f"{name} {sudo}\n")
    return f"Match User {name}\nAuthorizedKeysFile {path}"


def _run_detaching(host: RehearsalHost, command: list[str]) -> None:
    """Run a command that may leave something running; a pipe would wait for that too."""
    subprocess.run(
        host.command(*command),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        check=False,
        timeout=60,
    )


def _write(host: RehearsalHost, path: str, text: str) -> None:
    host.run("sh", "-c", f"umask 077; rm -f {path}; cat > {path}", input=text)


def _metadata(host: RehearsalHost) -> Path:
    return host.folder / "metadata.json"


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _tell(done: Any) -> None:
    if not done.cancelled() and (error := done.exception()):
        print(f"rehearsal: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
