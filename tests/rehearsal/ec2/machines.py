"""Put a host behind each instance of the rehearsal, which does what its user-data says."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.rehearsal.ec2 import imds, plugin
from tests.rehearsal.ec2.plugin import MARKET
from tests.rehearsal.hosts import PLACE, Hosts, RehearsalHost

HOST_KEY = "/etc/ssh/ssh_host_ed25519_key"
# What a node has on its own disk, though here it is this machine's.
LAYERED = ("/home", "/var/log", "/var/lib")
ON_DISK = f"/etc /home {Path.home()} /var/log /var/lib/cloud /var/lib/systemd"
LOOK_SECONDS = 0.1
AT_ONCE = 4
RUN = Path("/run/workbench")  # shared with this machine, so each host gets one of its own
FIRST = 10  # the network's first addresses are the bridge's and nobody's


class Machines:
    """The hosts of all instances; a context, at whose end all are gone."""

    def __init__(self) -> None:
        self._hosts = Hosts()
        self._found: dict[str, RehearsalHost] = {}
        self._told: dict[str, str] = {}
        self._ready: set[str] = set()
        self._count = 0
        self._closing = threading.Event()
        self._pool = ThreadPoolExecutor(AT_ONCE)
        self._watcher = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Machines:
        self._hosts.__enter__()
        RUN.mkdir(exist_ok=True)
        plugin.on_launch.append(self._launch)
        plugin.on_end.append(self._end)
        plugin.on_address.append(self._address)
        plugin.on_image.append(self._image)
        plugin.is_ready.append(self._ready.__contains__)
        self._watcher.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._closing.set()
        self._watcher.join()
        self._pool.shutdown(cancel_futures=True)
        self._hosts.close()
        if not any(path.is_dir() for path in PLACE.glob("*")):
            with contextlib.suppress(OSError):
                RUN.rmdir()

    def _address(self) -> str:
        self._count += 1
        return str(self._hosts.network[FIRST + self._count])

    def _image(self, image: str, id_: str) -> None:
        """Take a node's disk as it is at this moment."""
        names = "--exclude=/etc/hosts --exclude=/etc/hostname"
        there = f"$(ls -d {ON_DISK} 2>/dev/null)"
        tar = f"tar -P --one-file-system {names} -cf {self._picture(image)} {there}"
        self._found[id_].run("sh", "-c", tar)

    def _picture(self, image: str) -> Path:
        return PLACE / self._hosts.name / f"{image}.tar"

    def _launch(self, instance: Any, now: float) -> None:
        data = plugin.user_data(instance)
        self._pool.submit(self._boot, instance, data).add_done_callback(_tell)

    def _end(self, id_: str) -> None:
        self._ready.discard(id_)
        if host := self._found.pop(id_, None):
            self._pool.submit(self._hosts.stop, host).add_done_callback(_tell)

    def _boot(self, instance: Any, data: str) -> None:
        address = instance.private_ip_address
        host = self._hosts.start(
            f"ip-{address.replace('.', '-')}",
            address,
            authorized=(),
            layered=LAYERED,
            imds=imds.ADDRESS,
            sshd=False,
        )
        host.run("mount", "-t", "tmpfs", "rehearsal", str(RUN))
        if (disk := self._picture(instance.image_id)).exists():
            host.run("tar", "-P", "-xpf", str(disk))
        self._tell_metadata(instance, host)
        host.popen(sys.executable, "-I", imds.__file__, str(_metadata(host)))
        with MARKET.lock:
            if instance.state != "pending":  # ended before it was up
                self._pool.submit(self._hosts.stop, host)
                return
            self._found[instance.id] = host
        carry_out(host, data)
        self._ready.add(instance.id)

    def _watch(self) -> None:
        """Tell each machine what is said of it, and EC2 which machines have shut down."""
        while not self._closing.wait(LOOK_SECONDS):
            with MARKET.lock:
                for id_, host in list(self._found.items()):
                    instance = plugin.instance_of(id_)
                    if host.is_up:
                        self._tell_metadata(instance, host)
                    else:
                        plugin.begin_end(instance)
                    plugin.settle(instance.ec2_backend)

    def _tell_metadata(self, instance: Any, host: RehearsalHost) -> None:
        text = json.dumps(metadata(instance))
        if self._told.get(instance.id) != text:
            self._told[instance.id] = text
            new = _metadata(host).with_suffix(".new")
            new.write_text(text)
            os.replace(new, _metadata(host))


def metadata(instance: Any) -> dict[str, str]:
    """Return what the metadata service says, by path."""
    known = {
        "meta-data/instance-id": instance.id,
        "meta-data/instance-type": instance.instance_type,
        "meta-data/local-ipv4": instance.private_ip_address,
        "meta-data/placement/availability-zone": instance.availability_zone,
        "user-data": plugin.user_data(instance),
    }
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
    """Make a user who may log in with these keys; return what sshd has to be told."""
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
