"""Create a base system of Debian or Ubuntu once, and the settings of its machines."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlsplit

from tests.rehearsal.hosts import Disk, RehearsalHost

# Each release's own Python; the second is Ubuntu 24.04.
PYTHONS = {"bookworm": (3, 11), "noble": (3, 12), "trixie": (3, 13)}
# By which mmdebstrap checks Ubuntu's packages; Debian has no package with it.
UBUNTU = Path("/usr/share/keyrings/ubuntu-archive-keyring.gpg")
# Of what Debian's cloud images hold, what makes a machine that one can log in to.
INCLUDED = ("apt", "cloud-init", "lsb-release", "openssh-server", "iproute2", "procps", "sudo")
# What a box has that a person rents by ssh alone; iproute2 is for the tests. All systems have apt,
# but the smallest one of Ubuntu's that mmdebstrap makes.
BOX = ("apt", "openssh-server", "iproute2")
SOURCES = (Path("/etc/apt/sources.list"), Path("/etc/apt/sources.list.d/debian.sources"))
# The settings of apt's that concern how packages are fetched, and not what is listed.
FETCHING = ("Acquire::Check-", "Acquire::Retries")
BUNDLES = (os.environ.get("SSL_CERT_FILE", ""), "/etc/ssl/certs/ca-certificates.crt")
TRUSTED = "/etc/rehearsal-certificates.crt"
# The network is up before it boots, its disk is a folder, and it speaks one language.
CONFIG = """\
network: {config: disabled}
resize_rootfs: false
locale: C.UTF-8
"""
# What root downloads on a machine; other users could not write there.
CACHE = "/var/cache/rehearsal"
PATHS = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
KEPT = {"UV_CACHE_DIR": f"{CACHE}/uv", "PIP_CACHE_DIR": f"{CACHE}/pip"}
# The package index of pip, unless another is configured.
INDEX = """\
import ensurepip, pathlib, sys
near = pathlib.Path(ensurepip.__file__).parent / "_bundled"
sys.path[:0] = [str(one) for one in [*near.glob("pip-*"), *pathlib.Path(DEBIAN).glob("pip-*")]]
from pip._internal.models.index import PyPI
print(PyPI.netloc, PyPI.file_storage_domain)
"""
MAKE_SECONDS = 600.0


def why_not(release: str = "") -> str:
    """Return why no such machine can be made here; empty when it can.

    Args:
        release: By default that with this Python.
    """
    release = release or release_with(sys.version_info[:2])
    if not release:
        return f"no system's own Python is {sys.version.split()[0]}, and others come from elsewhere"
    if release == "noble" and not UBUNTU.exists():
        return f"there is no {UBUNTU}: Ubuntu's package ubuntu-keyring has it"
    return "" if shutil.which("mmdebstrap") else "there is no mmdebstrap: make machines installs it"


def release_with(python: tuple[int, ...]) -> str:
    """Return the release whose own Python has this version; empty if there is none."""
    return next((release for release, own in PYTHONS.items() if own == python), "")


class Debian:
    """Debian's base system in a folder, and beside it what machines download.

    Args:
        folder: Made if it does not exist; its maker removes it.
        included: Packages beside the smallest system.
        release: What is made there, by default that with this Python; what is there stays.
    """

    def __init__(self, folder: Path, release: str = "", included: Sequence[str] = INCLUDED) -> None:
        self.folder = folder
        self.included = included
        self.release = release or release_with(sys.version_info[:2])
        self.base = folder / "base"
        self.packages = folder / "packages"
        self.disks = folder / "disks"
        self.images = folder / "images"

    def make(self) -> None:
        """Make it from Debian's packages, unless it is there; remove what machines have left."""
        for path in (self.disks, self.images):
            shutil.rmtree(path, ignore_errors=True)
        if self.base.exists():
            return
        new = self.folder / "new"
        shutil.rmtree(new, ignore_errors=True)
        self.folder.mkdir(parents=True, exist_ok=True)
        options = [f"--aptopt={line}" for line in apt_settings()]
        subprocess.run(
            ["mmdebstrap", "--quiet", "--mode=root", "--variant=minbase",
             f"--include={','.join(self.included)}", *options, self.release, new,
             *map(str, sources(self.release))],
            check=True, timeout=MAKE_SECONDS, env={**os.environ, "TMPDIR": str(self.folder)},
        )  # fmt: skip
        new.chmod(0o755)
        new.rename(self.base)

    def keep(self, image: str, host: RehearsalHost) -> None:
        """Take a machine's disk as it is at this moment, for others to start from."""
        self.images.mkdir(exist_ok=True)
        subprocess.run(["cp", "-a", str(host.disk), self.images / image], check=True)

    def disk(self, name: str, proxy: str, image: Path | None = None) -> Disk:
        """Return a new disk: what boots from it knows its way to the registries."""
        return Disk(
            self.disks / name,
            (*([image] if image else []), self.base),
            files(proxy),
            self.binds,
            environment(proxy) | KEPT | PATHS,
        )

    @property
    def binds(self) -> dict[str, str]:
        """What root downloads from the index is kept for the next machine, by path here."""
        kept = {name: self.folder / name for name in ("uv", "pip")}
        for path in kept.values():
            path.mkdir(exist_ok=True)
        return {str(path): f"{CACHE}/{name}" for name, path in kept.items()}


def sources(release: str) -> list[Path]:
    """Return apt's sources of this machine, if it is of that release; else mmdebstrap's own."""
    there = [path for path in SOURCES if path.exists()]
    return [path for path in there if release in path.read_text()]


def apt_settings() -> list[str]:
    """Return how apt of this machine fetches, as lines of its configuration."""
    said = subprocess.check_output(["apt-config", "dump"], text=True)
    return [line for line in said.splitlines() if line.startswith(FETCHING)]


def proxies() -> dict[str, str]:
    """Return this machine's own proxies, by scheme."""
    said = subprocess.check_output(["apt-config", "shell", "P", "Acquire::http::Proxy"], text=True)
    own = said.partition("=")[2].strip().strip("'")
    return {**urllib.request.getproxies(), **({"http": own} if own and own != "DIRECT" else {})}


def registries(debian: Debian) -> set[str]:
    """Return the hosts from which packages come: apt's on that disk, and the index's."""
    apt = debian.base / "etc/apt"
    files = [apt / "sources.list", *(apt / "sources.list.d").glob("*")]
    lines = [line for path in files if path.exists() for line in path.read_text().splitlines()]
    words = " ".join(line for line in lines if not line.startswith("#")).split()
    named = [os.environ.get(name, "") for name in ("UV_DEFAULT_INDEX", "PIP_INDEX_URL")]
    hosts = {urlsplit(word).hostname for word in [*words, *named] if "://" in word}
    script = INDEX.replace("DEBIAN", "'/usr/share/python-wheels'")
    said = subprocess.check_output([sys.executable, "-I", "-c", script], text=True)
    return {host for host in {*hosts, *said.split()} if host}


def environment(proxy: str) -> dict[str, str]:
    """Return what programs on a machine have to know, to reach the index."""
    index = {name: os.environ[name] for name in ("UV_DEFAULT_INDEX",) if name in os.environ}
    trusted = dict.fromkeys(("SSL_CERT_FILE", "PIP_CERT", "REQUESTS_CA_BUNDLE"), TRUSTED)
    return {"HTTPS_PROXY": proxy, "https_proxy": proxy, "UV_HTTP_TIMEOUT": "180"} | trusted | index


def files(proxy: str) -> dict[str, str]:
    """Return the files, by path, by which a machine knows its way to the registries."""
    bundle = next(path for path in BUNDLES if path and Path(path).exists())
    kept = "".join(f'Defaults env_keep += "{name}"\n' for name in environment(proxy))
    root = " ".join(f"{name}={path}" for name, path in KEPT.items())
    apt = [*apt_settings(), f'Acquire::http::Proxy "{proxy}";', f'Acquire::https::Proxy "{proxy}";']
    return {
        "/etc/cloud/cloud.cfg.d/90_rehearsal.cfg": CONFIG,
        # There is no answer when cloud-init requests an address.
        "/etc/dhcp/dhclient.conf": "timeout 1;\n",
        TRUSTED: Path(bundle).read_text(),
        "/etc/environment": "".join(f"{k}={v}\n" for k, v in environment(proxy).items()),
        "/etc/sudoers.d/rehearsal": kept,
        "/etc/ssh/sshd_config.d/rehearsal.conf": f"Match User root\n    SetEnv {root}\n",
        "/etc/apt/apt.conf.d/99rehearsal": "\n".join([*apt, ""]),
    }
