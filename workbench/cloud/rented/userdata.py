"""Write the user-data of a node: what cloud-init runs when the node boots."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field

# Without a login by then, the node ends. A cold disk and a busy supervisor take minutes.
BOOT_SECONDS = 1200.0

# The Python environment of a node is in our own folder, wherever this one is: ``/usr``,
# ``/usr/local``, conda, pyenv or a virtual environment. A host of the user has its environment at
# the same path as here.
FOLDER = "/opt/workbench"
PREFIX = f"{FOLDER}/env"
PYTHON = f"{PREFIX}/bin/python"
UV = f"{FOLDER}/uv"
PYTHONS = f"{FOLDER}/python"  # installed by uv if the image has another version
# A pinned release that was tested: a new one is not used on its first day.
UV_VERSION = "0.13.9"
# SHA-256 of its wheels for glibc: pip installs no other file of this name.
UV_HASHES = (
    "d7f459fe4fd247d830351c75686d3996ace3c6f3f728eb0e85a30b7ada0cef19",  # x86_64
    "ecb6028d79dc96fbeafffe5c8af62a7099487ebc05a701e76714eebcffd06375",  # aarch64
    "5435c5ce14a56431208ca0996416d310f1598e8c2c8ba707688985a16bb82dbe",  # aarch64, older glibc
)

RUN = "/run/workbench"
READY = f"{RUN}/ready"
FAILED = f"{RUN}/failed"
LOG = f"{RUN}/setup.log"
SIGN = f"{RUN}/sign"
LOOK_SECONDS = 5
HOST_KEY = "/etc/ssh/ssh_host_ed25519_key"
# A test for a command, and the package that has it; all else comes from the package index.
PACKAGES = (
    ("command -v ssh", "openssh-client"),
    ("test -s /etc/ssl/certs/ca-certificates.crt", "ca-certificates"),
    ("python3 -c 'import ensurepip, venv'", "python3-venv"),
)
# An index that is locked or unreachable is tried again: apt waits for its other locks, but not for
# that of its lists.
APT = "apt-get -q -o DPkg::Lock::Timeout=300 -o Acquire::http::Timeout=20"
APT_TRIES = 5
APT_AGAIN_SECONDS = 10


@dataclass(frozen=True)
class BootData:
    """The data that a node gets before its first contact.

    Nothing in it is a lasting secret: users with the right to describe the node can read it. So the
    host key is replaced in the first session, and only the public half of the user key is in it.

    Args:
        host_key: Private, in OpenSSH's format; replaced after the first session.
        host_public: Its public half.
        user_key: The cluster's public user key.
        user: The login name; created if it is missing, with full sudo rights.
        prefix: The folder of the environment.
        python: Its version, such as ``3.11``: the image's own if it has that, else uv's.
        boot_seconds: The node shuts down after so long without a login.
        expires: Epoch seconds at which it shuts down in any case; 0 for never.
        shutdown: The command that ends the node.
    """

    cluster: str
    host_key: str = field(repr=False)
    host_public: str
    user_key: str
    python: str
    user: str = "workbench"
    prefix: str = PREFIX
    boot_seconds: float = BOOT_SECONDS
    expires: float = 0.0
    shutdown: str = "shutdown -h now"


def node_user() -> str:
    """Return the login name on nodes: root if this user is root, whose files only root reads."""
    return "root" if os.geteuid() == 0 else BootData.user


def user_data(boot: BootData) -> str:
    """Return the user-data: as JSON, which is valid YAML, so nothing in it needs more quoting."""
    config = {
        # First, and at every boot: whatever else fails, the node ends after a limited time.
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
    return f"#cloud-config\n{json.dumps(config, indent=1)}\n"


def is_ready(seconds: float) -> str:
    """Return the script that waits until the node is set up; on failure it prints the log."""
    return (
        f"left={seconds:.0f}\n"
        f"until [ -e {READY} ]; do\n"
        f"  [ ! -e {FAILED} ] || {{ tail -n 60 {LOG} >&2; exit 1; }}\n"
        '  [ "$left" -gt 0 ] || { echo "it is still being set up" >&2; exit 2; }\n'
        "  left=$((left - 1)); sleep 1\n"
        "done\n"
    )


def make_host_key(path: str = HOST_KEY) -> str:
    """Return the script that creates the node's own host key, and prints the public half.

    Run as root over a session that the temporary key has verified. sshd does not use the new key
    yet, so that it can be recorded first; run again, the script prints the same key.
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


def show_host_key() -> str:
    """Return the script that makes sshd use the node's own host key.

    Run as root, once the key is recorded. It ends when sshd shows the key; the session that it
    runs in stays open.
    """
    return (
        "set -eu\n"
        "umask 077\n"
        f"key=$(ssh-keygen -y -f {HOST_KEY}.new | cut -d' ' -f1,2)\n"
        f'echo "$key" > {HOST_KEY}.pub && chmod 644 {HOST_KEY}.pub\n'
        f"mv -f {HOST_KEY}.new {HOST_KEY}\n"
        "{ systemctl reload ssh || systemctl reload sshd || pkill -HUP -o -x sshd; } "
        ">/dev/null 2>&1\n"
        # sshd closes its port for a moment. sudo does not pass SSH_CONNECTION on.
        "set -- ${SSH_CONNECTION:-x x $(hostname -I | cut -d' ' -f1) 22}\n"
        "left=100\n"
        'until ssh-keyscan -T 1 -t ed25519 -p "$4" "$3" 2>/dev/null | grep -qF "$key"; do\n'
        '  [ "$left" -gt 0 ] || { echo "sshd does not show its new key" >&2; exit 1; }\n'
        "  left=$((left - 1)); sleep 0.1\n"
        "done\n"
    )


def first_host_key(user_data: str) -> str:
    """Return the public half of a node's temporary host key; empty if there is none."""
    try:
        config = json.loads(user_data.removeprefix("#cloud-config\n"))
        return " ".join(config["ssh_keys"]["ed25519_public"].split()[:2])
    except (ValueError, KeyError, TypeError, AttributeError):
        return ""


def lease_file(boot: BootData) -> str:
    """Return the path of the file in which ``workbench.node.lease`` records its holder."""
    home = "/root" if boot.user == "root" else f"/home/{boot.user}"
    return f"{home}/.local/state/workbench/lease-{boot.cluster}.json"


def _users(boot: BootData) -> list[object]:
    user: dict[str, object] = {"name": boot.user, "ssh_authorized_keys": [boot.user_key.strip()]}
    if boot.user != "root":
        user |= {
            "shell": "/bin/bash",
            "lock_passwd": True,
            "sudo": "ALL=(ALL) NOPASSWD:ALL",
        }
    return [user]


def _start_watch(boot: BootData) -> str:
    return (
        f"mkdir -p {RUN}\n"
        f"cat > {RUN}/watch <<'END'\n{watch(boot)}END\n"
        f"setsid sh {RUN}/watch </dev/null >/dev/null 2>&1 &\n"
    )


def watch(boot: BootData, uptime: str = "/proc/uptime") -> str:
    """Return the script that ends a node which no supervisor uses.

    The supervisor has to log in soon after the boot, and leaves signs of life from then on. A lease
    of this boot takes over from the last one.
    """
    return (
        f"start=$(cut -d. -f1 {uptime})\n"
        "boot=$(cat /proc/sys/kernel/random/boot_id)\n"
        f"lease={shlex.quote(lease_file(boot))}\n"
        f"while sleep {LOOK_SECONDS}; do\n"
        '  if grep -qs "$boot" "$lease"; then continue; fi\n'
        f"  up=$(cut -d. -f1 {uptime})\n"
        f"  since=$start seconds={boot.boot_seconds:.0f} expires={boot.expires:.0f}\n"
        f"  if grep -Eqsx '[0-9]{{1,12}} [0-9]{{1,12}} [0-9]{{1,12}}' {SIGN}; then\n"
        f"    read -r signed for until < {SIGN}\n"
        '    if [ "$signed" -le "$up" ]; then\n'
        "      since=$signed seconds=$for expires=$until\n"
        "    fi\n"
        "  fi\n"
        '  if [ "$((up - since))" -ge "$seconds" ] ||\n'
        '    { [ "$expires" -gt 0 ] && [ "$(date +%s)" -ge "$expires" ]; }; then\n'
        f"    {boot.shutdown}\n"
        "  fi\n"
        "done\n"
    )


def sign(seconds: float, expires: float) -> str:
    """Return the script by which a supervisor keeps a node alive without a lease; run as root.

    Args:
        seconds: For how long it is valid.
        expires: Epoch seconds at which the node ends in any case; 0 for never.
    """
    return (
        "umask 022\n"
        f'echo "$(cut -d. -f1 /proc/uptime) {seconds:.0f} {expires:.0f}" > {SIGN}.new &&\n'
        f"mv -f {SIGN}.new {SIGN}\n"
    )


def _setup(boot: BootData) -> str:
    """Return the setup script of a bare image; a baked image has all of it and skips it."""
    prefix = shlex.quote(boot.prefix)
    return (
        f"mkdir -p {RUN}\n"
        f"exec >{LOG} 2>&1\n"
        f"trap '[ $? = 0 ] || touch {FAILED}' EXIT\n"
        "set -eux\n"
        f"if [ ! -x {prefix}/bin/python ]; then\n"
        f"{packages()}"
        f"  python3 -m venv --clear {UV}\n"
        f"  echo '{uv_requirement()}' > {UV}/uv.txt\n"
        f"  {UV}/bin/pip install -q --only-binary=:all: --require-hashes -r {UV}/uv.txt\n"
        f"  export UV_PYTHON_INSTALL_DIR={PYTHONS}\n"
        f"  {UV}/bin/uv venv --clear --seed --python {boot.python} {prefix}\n"
        f"  chown -R {boot.user}: {prefix}\n"
        "fi\n"
        f"touch {READY}\n"
    )


def uv_requirement() -> str:
    """Return the line of a requirements file that lets pip install the tested uv alone."""
    return " ".join([f"uv=={UV_VERSION}", *(f"--hash=sha256:{one}" for one in UV_HASHES)])


def packages(
    needed: Sequence[tuple[str, str]] = PACKAGES, seconds: float = APT_AGAIN_SECONDS
) -> str:
    """Return the script that installs the packages which an image lacks; run as root.

    A failing third-party package list is ignored if the missing packages can be installed.

    Args:
        needed: Test commands, and the package for each.
        seconds: Between two attempts.
    """
    asked = "".join(f'  {there} >/dev/null 2>&1 || set -- "$@" {name}\n' for there, name in needed)
    return (
        f"  set --\n{asked}"
        "  export DEBIAN_FRONTEND=noninteractive\n"
        f"  left={APT_TRIES}\n"
        '  while [ "$#" -gt 0 ]; do\n'
        f"    {APT} update || true\n"
        f'    if {APT} install -y --no-install-recommends "$@"; then break; fi\n'
        "    left=$((left - 1))\n"
        '    [ "$left" -gt 0 ] || exit 1\n'
        f"    sleep {seconds:g}\n"
        "  done\n"
    )


def _lines(key: str) -> str:
    return key.strip() + "\n"
