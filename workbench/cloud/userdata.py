"""Write what a node does when it boots, in cloud-init's form, and what is said to it at first."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field

from workbench.cloud.launch import MAX_USER_DATA_NBYTES
from workbench.errors import InputError

RUN = "/run/workbench"
READY = f"{RUN}/ready"
FAILED = f"{RUN}/failed"
LOG = f"{RUN}/setup.log"
LOOK_SECONDS = 5
HOST_KEY = "/etc/ssh/ssh_host_ed25519_key"
# What MPI over hosts needs beside the environment; all else comes from the package index.
PACKAGES = ("openssh-client", "openssh-server", "python3-venv", "ca-certificates", "rsync")


@dataclass(frozen=True)
class Boot:
    """What is told to a node before anybody has spoken to it.

    Nothing here is a secret for long: whoever may describe the node can read it. So the host key
    is thrown away at the first session, and the user's key is the public half.

    Args:
        host_key: Private, in OpenSSH's form; thrown away after the first session.
        host_public: Its public half.
        user_key: The cluster's public user key.
        user: Who logs in; made if need be, and may do all.
        prefix: Where the environment is here, and has to be there.
        python: Its version, such as ``3.11``.
        requirements: What the environment holds, such as ``numpy==2.2.0``; not ``workbench``.
        boot_seconds: Without a lease by then, the node shuts down.
        expires: Epoch seconds at which it shuts down in any case; 0 for never.
        shutdown: What ends the node.
    """

    cluster: str
    host_key: str = field(repr=False)
    host_public: str
    user_key: str
    prefix: str
    python: str
    user: str = "workbench"
    requirements: tuple[str, ...] = ()
    boot_seconds: float = 900.0
    expires: float = 0.0
    shutdown: str = "shutdown -h now"


def node_user() -> str:
    """Return who logs in to the nodes: root where it is root here, whose files only root reads."""
    return "root" if os.geteuid() == 0 else Boot.user


def user_data(boot: Boot) -> str:
    """Return the user-data: YAML's subset that JSON is, so nothing in it needs quoting anew.

    Raises:
        InputError: It is longer than EC2 takes.
    """
    config = {
        # First of all, and at every boot: whatever else fails, the node ends some day.
        "bootcmd": [["sh", "-c", _start_watch(boot)]],
        "users": _users(boot),
        "disable_root": boot.user != "root",
        "ssh_pwauth": False,
        "ssh_deletekeys": True,
        "ssh_keys": {
            "ed25519_private": _lines(boot.host_key),
            "ed25519_public": _lines(boot.host_public),
        },
        "runcmd": [["sh", "-c", _setup(boot)]],
    }
    text = f"#cloud-config\n{json.dumps(config, indent=1)}\n"
    if len(text.encode()) > MAX_USER_DATA_NBYTES:
        raise InputError(
            f"What a node does when it boots takes {len(text.encode())} bytes, and EC2 takes "
            f"{MAX_USER_DATA_NBYTES}; name fewer requirements, or bake an image."
        )
    return text


def is_ready(seconds: float) -> str:
    """Return the script that waits until the node is set up; it fails with what went wrong."""
    return (
        f"left={seconds:.0f}\n"
        f"until [ -e {READY} ]; do\n"
        f"  [ ! -e {FAILED} ] || {{ tail -n 5 {LOG} >&2; exit 1; }}\n"
        '  [ "$left" -gt 0 ] || { echo "it is still being set up" >&2; exit 2; }\n'
        "  left=$((left - 1)); sleep 1\n"
        "done\n"
    )


def make_host_key(path: str = HOST_KEY) -> str:
    """Return the script by which a node makes a host key of its own, and says the public half.

    Run as root over a session that the throw-away key has verified. sshd does not show the new
    key yet, so that it can be written down first; run again, it says the same one.
    """
    return (
        "set -eu\n"
        "umask 077\n"
        f"if [ ! -s {path}.new ]; then\n"
        f"  new=$(mktemp -d {path}.XXXXXX)\n"
        '  ssh-keygen -q -t ed25519 -N "" -C "" -f "$new/key"\n'
        f'  mv -f "$new/key" {path}.new\n'
        '  rm -rf "$new"\n'
        "fi\n"
        f"ssh-keygen -y -f {path}.new | cut -d' ' -f1,2\n"
    )


def show_host_key(path: str = HOST_KEY) -> str:
    """Return the script by which a node shows the key that it made, in place of the first one.

    Run as root, once the key is written down. It ends when sshd shows the key; the session by
    which it runs goes on.
    """
    return (
        "set -eu\n"
        "umask 077\n"
        f"key=$(ssh-keygen -y -f {path}.new | cut -d' ' -f1,2)\n"
        f'echo "$key" > {path}.pub && chmod 644 {path}.pub\n'
        f"mv -f {path}.new {path}\n"
        "{ systemctl reload ssh || systemctl reload sshd || pkill -HUP -o -x sshd; } "
        ">/dev/null 2>&1\n"
        # It closes its port for a moment. sudo does not hand on where the session came in.
        "set -- ${SSH_CONNECTION:-x x $(hostname -I | cut -d' ' -f1) 22}\n"
        "left=100\n"
        'until ssh-keyscan -T 1 -t ed25519 -p "$4" "$3" 2>/dev/null | grep -qF "$key"; do\n'
        '  [ "$left" -gt 0 ] || { echo "sshd does not show its new key" >&2; exit 1; }\n'
        "  left=$((left - 1)); sleep 0.1\n"
        "done\n"
    )


def first_host_key(user_data: str) -> str:
    """Return the public half of the throw-away host key that a node was told; empty without one."""
    try:
        config = json.loads(user_data.removeprefix("#cloud-config\n"))
        return " ".join(config["ssh_keys"]["ed25519_public"].split()[:2])
    except (ValueError, KeyError, TypeError, AttributeError):
        return ""


def lease_file(boot: Boot) -> str:
    """Return where the lease of ``workbench.node.lease`` says who holds it."""
    home = "/root" if boot.user == "root" else f"/home/{boot.user}"
    return f"{home}/.local/state/workbench/lease-{boot.cluster}.json"


def _users(boot: Boot) -> list[object]:
    user: dict[str, object] = {"name": boot.user, "ssh_authorized_keys": [boot.user_key.strip()]}
    if boot.user != "root":
        user |= {
            "shell": "/bin/bash",
            "lock_passwd": True,
            "sudo": "ALL=(ALL) NOPASSWD:ALL",
        }
    return [user]


def _start_watch(boot: Boot) -> str:
    return (
        f"mkdir -p {RUN}\n"
        f"cat > {RUN}/watch <<'END'\n{_watch(boot)}END\n"
        f"setsid sh {RUN}/watch </dev/null >/dev/null 2>&1 &\n"
    )


def _watch(boot: Boot) -> str:
    """Return what ends a node that nobody came for; a lease of this boot takes over from it.

    Also for the time to live: a person may have let the cluster live longer since.
    """
    return (
        "start=$(cut -d. -f1 /proc/uptime)\n"
        "boot=$(cat /proc/sys/kernel/random/boot_id)\n"
        f"lease={shlex.quote(lease_file(boot))}\n"
        f"while sleep {LOOK_SECONDS}; do\n"
        "  up=$(cut -d. -f1 /proc/uptime)\n"
        '  if grep -qs "$boot" "$lease"; then continue; fi\n'
        f"  if [ $((up - start)) -ge {boot.boot_seconds:.0f} ]; then\n    {boot.shutdown}\n  fi\n"
        f'  if [ {boot.expires:.0f} -gt 0 ] && [ "$(date +%s)" -ge {boot.expires:.0f} ]; '
        f"then\n    {boot.shutdown}\n  fi\n"
        "done\n"
    )


def _setup(boot: Boot) -> str:
    """Return what a bare image lacks; an image that was baked has it all and goes on at once."""
    prefix = shlex.quote(boot.prefix)
    return (
        f"mkdir -p {RUN}\n"
        f"exec >{LOG} 2>&1\n"
        f"trap '[ $? = 0 ] || touch {FAILED}' EXIT\n"
        "set -eux\n"
        f"if [ ! -x {prefix}/bin/python ]; then\n"
        "  export DEBIAN_FRONTEND=noninteractive\n"
        "  apt-get -q -o DPkg::Lock::Timeout=300 update\n"
        "  apt-get -q -o DPkg::Lock::Timeout=300 install -y --no-install-recommends "
        f"{' '.join(PACKAGES)}\n"
        "  python3 -m venv /opt/uv\n"
        "  /opt/uv/bin/pip install -q uv\n"
        "  export UV_PYTHON_INSTALL_DIR=/opt/python\n"
        f"  /opt/uv/bin/uv venv --seed --python {boot.python} {prefix}\n"
        f"{_install(boot.requirements, prefix)}"
        f"  chown -R {boot.user}: {prefix}\n"
        "fi\n"
        f"touch {READY}\n"
    )


def _install(requirements: Sequence[str], prefix: str) -> str:
    if not requirements:
        return ""
    wanted = "\n".join(requirements)
    return (
        f"  cat > {RUN}/requirements.txt <<'END'\n{wanted}\nEND\n"
        f"  /opt/uv/bin/uv pip install -q --python {prefix}/bin/python "
        f"-r {RUN}/requirements.txt\n"
    )


def _lines(key: str) -> str:
    return key.strip() + "\n"
