"""What a bare host says of itself, whether it can be equipped, and the scripts that do it.

A bare host has an sshd, a shell and the usual small programs, and no rights for us. All that it
gets is in `FOLDER` of the home directory: uv, its cache and Pythons, which all clusters share, and
a folder for each cluster. As homes differ from host to host, and mpiexec starts the same command on
all of them, the environment has a second path that is the same everywhere, below ``/tmp``.
"""

from __future__ import annotations

import ipaddress
import platform
import re
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256

from workbench.cloud.rented.userdata import UV_VERSION
from workbench.errors import MachineError

FOLDER = ".workbench"
UV_NAME = f"uv-{UV_VERSION}"
UV = f'"$HOME/{FOLDER}/{UV_NAME}"'
# Of every wheel for Linux that has compiled parts, as manylinux2014, and of uv and its Pythons.
GLIBC = (2, 17)
# Which packages with C++ take from the system; one without any such program lacks it.
CPP = "libstdc++.so.6"
NO_EXECUTION, READ_ONLY = "noexec", "ro"
_MARK = "workbench-box "
_LIBC = re.compile(r"(\d+)\.(\d+)")
_WAS_MADE = "made-"

LOOK = f"""\
say() {{ echo "{_MARK}$*"; }}
home=$(cd "$HOME" && pwd -P) || home=
say name "$(uname -n)"
say system "$(uname -s)"
say machine "$(uname -m)"
say home "$home"
say libc "$(getconf GNU_LIBC_VERSION 2>/dev/null || ldd --version 2>&1 | head -n 1)"
say cores "$(nproc 2>/dev/null || getconf _NPROCESSORS_ONLN)"
say gpus "$(nvidia-smi -L 2>/dev/null | grep -c '^GPU')"
say free "$(df -Pk "$HOME" | tail -n 1)"
say connection "$SSH_CONNECTION"
{{ PATH="$PATH:/sbin:/usr/sbin" ldconfig -p; ls /usr/lib*/{CPP} /usr/lib/*/{CPP}; }} 2>/dev/null |
  grep -q {CPP} || say lacks {CPP}
[ -w "$HOME" ] || say locked yes
[ ! -e "$HOME/{FOLDER}/$1/env/bin/python" ] || say equipped yes
while read -r _ place _ options _; do
  case "$home/" in "${{place%/}}/"*) say mount "$place $options" ;; esac
done < /proc/mounts
grep -B 1 -h 'host LOCAL' /proc/net/fib_trie | while read -r _ address; do
  case $address in *.*.*.*) say local "$address" ;; esac
done
"""

EXPORTS = (
    f'export UV_CACHE_DIR="$HOME/{FOLDER}/cache" UV_PYTHON_INSTALL_DIR="$HOME/{FOLDER}/python"\n'
    f'export TMPDIR="$HOME/{FOLDER}"\n'
)

# $1 is the cluster's folder, $2 the place of the second path, $3 the version of Python.
MAKE = f"""\
set -eu
umask 077
own="$HOME/{FOLDER}/$1"
mkdir -p -- "$own"
mkdir -p -m 700 -- "$2"
test -O "$2" && ! test -L "$2" && chmod 700 -- "$2" || {{
  echo "$2 belongs to another user" >&2; exit 1
}}
[ "$(readlink "$2/env")" = "$own/env" ] || {{ rm -f -- "$2/env"; ln -s -- "$own/env" "$2/env"; }}
[ ! -e "$own/{_WAS_MADE}$3" ] || exit 0
{EXPORTS}rm -f -- "$own/{_WAS_MADE}"*
{UV} venv -q --clear --python "$3" "$own/env"
touch "$own/{_WAS_MADE}$3"
"""

# The packed uv is on standard input.
TAKE_UV = f"""\
set -eu
umask 077
mkdir -p "$HOME/{FOLDER}"
part=$(mktemp "$HOME/{FOLDER}/.part.XXXXXX")
trap 'rm -f -- "$part"' EXIT
gzip -dc "$HOME/$1" > "$part"
chmod 700 "$part"
mv -f -- "$part" {UV}
rm -f -- "$HOME/$1"
"""

# The last cluster on a host takes with it what all of them share.
PURGE = f"""\
cd "$HOME/{FOLDER}" 2>/dev/null || exit 0
[ ! -x "$2/env/bin/python" ] ||
  "$2/env/bin/python" -m workbench.node.lease --cluster "$3" --folder "$1" --end >/dev/null 2>&1
rm -rf -- "$1" "$2"
for one in */env; do [ ! -e "$one" ] || exit 0; done
cd .. && rm -rf -- "{FOLDER}"
"""


@dataclass(frozen=True)
class BoxPlace:
    """Where a cluster has its environment on a host.

    Args:
        cluster: Its name.
        owner: Of the cluster; two people may log in to a host as the same user.
    """

    cluster: str
    owner: str

    @property
    def name(self) -> str:
        """The name of the cluster's folder in ``FOLDER``."""
        return f"{self.cluster}-{sha256(self.owner.encode()).hexdigest()[:8]}"

    @property
    def folder(self) -> str:
        """The cluster's folder, relative to the home directory."""
        return f"{FOLDER}/{self.name}"

    @property
    def common(self) -> str:
        """The folder with the environment's second path, the same on every host."""
        return f"/tmp/workbench-env-{sha256(self.name.encode()).hexdigest()[:12]}"

    @property
    def python(self) -> str:
        """The path of the environment's Python, the same on every host."""
        return f"{self.common}/env/bin/python"


@dataclass(frozen=True)
class BoxFacts:
    """What a host says of itself before anything of ours is on it.

    Args:
        name: By which it calls itself.
        libc: Of glibc, such as ``(2, 36)``; ``(0, 0)`` for another C library.
        options: Those with which the file system of the home directory is mounted.
        free_nbytes: Free there.
        addresses: Its own, that by which the login came first; without loopback.
        locked: Whether the home directory cannot be written.
        equipped: Whether the cluster's environment is there.
        lacks: A library that compiled packages need, if it is not there.
    """

    name: str
    system: str
    machine: str
    home: str
    libc: tuple[int, int]
    cores: int
    gpus: int
    options: frozenset[str]
    free_nbytes: int
    addresses: tuple[str, ...]
    locked: bool
    equipped: bool
    lacks: str = ""

    @property
    def slots(self) -> int:
        """Ranks that it carries: one for each GPU, or else for each core."""
        return self.gpus or self.cores


def read_look(output: str) -> BoxFacts:
    """Return what a host said; its login shell may have printed more before."""
    found: dict[str, list[str]] = {}
    for line in output.splitlines():
        if line.startswith(_MARK):
            name, _, value = line.removeprefix(_MARK).partition(" ")
            found.setdefault(name, []).append(value.strip())

    def first(name: str) -> str:
        return found.get(name, [""])[0]

    libc = _LIBC.search(first("libc")) if "musl" not in first("libc").lower() else None
    # The longest path is that of the file system itself; of equal ones the last lies on top.
    mounts = sorted(map(str.split, found.get("mount", [])), key=lambda one: len(one[0]))
    login = first("connection").split()
    given = [*(login[2:3]), *found.get("local", [])]
    free = first("free").split()
    return BoxFacts(
        first("name"),
        first("system"),
        first("machine"),
        first("home"),
        (int(libc[1]), int(libc[2])) if libc else (0, 0),
        _whole(first("cores")),
        _whole(first("gpus")),
        frozenset(mounts[-1][1].split(",")) if mounts and len(mounts[-1]) > 1 else frozenset(),
        _whole(free[3]) << 10 if len(free) > 3 else 0,
        tuple(dict.fromkeys(filter(_is_usable, given))),
        bool(first("locked")),
        bool(first("equipped")),
        first("lacks"),
    )


def check_box(address: str, facts: BoxFacts, needed_nbytes: int) -> None:
    """Check that a host can have this machine's environment.

    Args:
        needed_nbytes: Space that the environment takes.

    Raises:
        MachineError: It cannot.
    """
    here = platform.machine()
    if not facts.home:
        raise MachineError(
            f"{address} has no home directory for its user", "log in as a user who has one."
        )
    if facts.system != "Linux" or facts.machine != here:
        raise MachineError(
            f"{address} is a {facts.system} machine with {facts.machine or 'unknown'} processors, "
            f"and this one is Linux with {here}: compiled packages of here do not run there",
            "leave it out.",
        )
    if facts.libc < GLIBC:
        has = f"glibc {facts.libc[0]}.{facts.libc[1]}" if any(facts.libc) else "no glibc"
        raise MachineError(
            f"{address} has {has}, and compiled packages need {GLIBC[0]}.{GLIBC[1]} or newer",
            "leave it out, or install a newer system there.",
        )
    if facts.lacks:
        raise MachineError(
            f"{address} has no {facts.lacks}, which compiled packages need",
            "install it there (as root: `apt-get install libstdc++6`), or leave the host out.",
        )
    if facts.locked or READ_ONLY in facts.options:
        raise MachineError(
            f"{facts.home} on {address} cannot be written", "log in as a user whose home can."
        )
    if NO_EXECUTION in facts.options:
        raise MachineError(
            f"{facts.home} on {address} is mounted noexec, so no program starts from there",
            "log in as a user whose home is on another disk, or mount it again without noexec.",
        )
    if not facts.equipped and facts.free_nbytes < needed_nbytes:
        raise MachineError(
            f"{facts.home} on {address} has {facts.free_nbytes / 1e9:.1f} GB free, and this "
            f"environment needs {needed_nbytes / 1e9:.1f} GB",
            "free some space there, or leave it out.",
        )


def check_names(names: Mapping[str, str]) -> None:
    """Check that hosts call themselves by different names, by which MPI tells them apart.

    Raises:
        MachineError: Two have the same name.
    """
    first: dict[str, str] = {}
    for host, name in names.items():
        if (other := first.setdefault(name, host)) != host:
            raise MachineError(
                f"{other} and {host} both call themselves {name!r}, so MPI takes them for one host",
                f"give {host} another name (`hostname NAME` as root there), or leave it out.",
            )


def purge_command(place: BoxPlace) -> list[str]:
    """Return the command that removes a cluster's environment from a host."""
    return ["sh", "-c", PURGE, "sh", place.name, place.common, place.cluster]


def choose_addresses(
    known: Mapping[str, tuple[str, ...]], tried: Mapping[str, Mapping[str, str]]
) -> dict[str, str]:
    """Return an address for each host by which all others reach it.

    Args:
        known: The addresses of each host, the preferred one first.
        tried: By host, the reasons for which it does not reach an address of the others; empty
            for success.

    Raises:
        MachineError: A host has none; every pair is named.
    """
    chosen: dict[str, str] = {}
    apart: list[str] = []
    for host, addresses in known.items():
        others = [other for other in known if other != host]
        reached = [
            one for one in addresses if not any(tried[o].get(one, "no answer") for o in others)
        ]
        if reached:
            chosen[host] = reached[0]
            continue
        for other in others:
            whys = {one: tried[other].get(one, "no answer") for one in addresses}
            if all(whys.values()):
                shown = ", ".join(f"{one}: {why}" for one, why in whys.items()) or "no address"
                apart.append(f"{other} does not reach {host} ({shown})")
        if not any(f"reach {host} " in one for one in apart):
            apart.append(f"{host} has no address that {' and '.join(others)} reach alike")
    if apart:
        raise MachineError(
            "; ".join(apart),
            "open all TCP ports between them, join them by a private network of their provider or "
            "a VPN such as WireGuard, or leave one out.",
        )
    return chosen


def _whole(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 16 else 0


def _is_usable(text: str) -> bool:
    try:
        address = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return False
    return not (address.is_loopback or address.is_link_local or address.is_unspecified)
