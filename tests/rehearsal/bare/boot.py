"""Process 1 of a machine with its own disk: enters the disk, boots Debian, reaps children.

First this machine's Python runs it, makes the disk and changes its root to it; then Debian's own
Python runs it from that disk. There is no systemd. What systemd's units of cloud-init and ssh do
in Debian's cloud images is done here, in their order.

Reads one JSON object from standard input, says ``up``, boots when it reads a line, and ends, and
the machine with it, when standard input closes or ``shutdown`` is called.
"""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any, NoReturn

INIT = Path("/usr/sbin/init")
OFF = ("shutdown", "poweroff", "halt", "reboot")
DEVICES = {"null": (1, 3), "zero": (1, 5), "full": (1, 7), "random": (1, 8), "urandom": (1, 9)}
DEVICES |= {"tty": (5, 0)}
LINKS = {"fd": "/proc/self/fd", "stdin": "fd/0", "stdout": "fd/1", "stderr": "fd/2"}
LINKS |= {"ptmx": "pts/ptmx"}
CLOUD_INIT = "/usr/bin/cloud-init"
# Process 1 where there is no cloud-init, nor Python: sshd alone, with keys of its own.
PLAIN = """\
#!/bin/sh
echo up
read -r _ || exit 0
exec 3<&0 >&2
( cat <&3 >/dev/null; : > /run/over ) &
trap ': > /run/over' USR1
mkdir -p /run/sshd
rm -f /etc/ssh/ssh_host_*
ssh-keygen -q -A
/usr/sbin/sshd
echo booted
# sh reaps what is left by others while it waits.
while [ ! -e /run/over ]; do sleep 0.2; done
"""
# cloud-init's generator and its four services, and ssh.service where its order puts it.
BEFORE_SSH = (
    ["/usr/lib/cloud-init/ds-identify"],
    [CLOUD_INIT, "init", "--local"],
    [CLOUD_INIT, "init"],
)
AFTER_SSH = ([CLOUD_INIT, "modules", "--mode=config"], [CLOUD_INIT, "modules", "--mode=final"])
# What a machine of EC2's says of itself.
DMIDECODE = """\
#!/bin/sh
case "$*" in
*system-uuid*|*system-serial-number*) echo ec2e1916-9099-7caf-fd21-012345abcdef ;;
*system-manufacturer*) echo "Amazon EC2" ;;
*system-product-name*) echo c5.large ;;
*chassis-asset-tag*) echo "Amazon EC2" ;;
*) exit 1 ;;
esac
"""
# cloud-init does not read a container's DMI, and that is what systemd takes this for.
DETECT_VIRT = "#!/bin/sh\necho none\nexit 1\n"


def mount(*arguments: str) -> None:
    subprocess.run(["mount", *arguments], check=True)


def main() -> None:
    """Make the disk, and continue on it."""
    wanted = json.loads(sys.stdin.readline())
    disk = make_disk(Path(wanted["disk"]), wanted["lower"])
    for source, path in wanted["binds"].items():
        (disk / path.lstrip("/")).mkdir(parents=True, exist_ok=True)
        mount("--bind", source, str(disk / path.lstrip("/")))
    write_files(disk, wanted["files"])
    hosts = disk / "etc/hosts"
    hosts.touch()
    mount("--bind", wanted["hosts"], str(hosts))
    mount_kernel(disk)
    os.chdir(disk)
    subprocess.run(["pivot_root", ".", "mnt"], check=True)
    os.chroot(".")
    os.chdir("/")
    subprocess.run(["/usr/bin/umount", "--lazy", "/mnt"], check=True)
    is_plain = not Path(CLOUD_INIT).exists()
    Path("/proc/sys/kernel/hostname").write_text(wanted["name"] if is_plain else "debian")
    if is_plain:
        os.execve("/bin/sh", ["sh", str(INIT)], wanted["environment"])
    os.execve("/usr/bin/python3", ["python3", "-I", str(INIT), "boot"], wanted["environment"])


def make_disk(folder: Path, lower: list[str]) -> Path:
    """Lay an empty disk over what the image has; return where it is."""
    for name in ("upper", "work", "root"):
        (folder / name).mkdir(exist_ok=True)
    layers = f"lowerdir={':'.join(lower)},upperdir={folder / 'upper'},workdir={folder / 'work'}"
    mount("-t", "overlay", "-o", layers, "rehearsal", str(folder / "root"))
    return folder / "root"


def write_files(disk: Path, files: dict[str, str]) -> None:
    """Write what this machine says of itself, and what ends it."""
    off = {f"/usr/sbin/{name}": "#!/bin/sh\nkill -USR1 1\n" for name in OFF}
    programs = {"/usr/sbin/dmidecode": DMIDECODE, "/usr/bin/systemd-detect-virt": DETECT_VIRT}
    is_plain = not (disk / CLOUD_INIT.lstrip("/")).exists()
    programs |= {str(INIT): PLAIN if is_plain else Path(__file__).read_text(), **off}
    for name, text in {**files, **programs}.items():
        path = disk / name.lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755 if name in programs else 0o644)


def mount_kernel(disk: Path) -> None:
    """Mount what the kernel and systemd would give: its own processes, devices and network."""
    mount("-t", "proc", "proc", str(disk / "proc"))
    mount("-t", "sysfs", "-o", "ro", "sysfs", str(disk / "sys"))
    mount("-t", "tmpfs", "-o", "mode=755", "udev", str(disk / "dev"))
    mount("-t", "tmpfs", "-o", "mode=755", "tmpfs", str(disk / "run"))
    (disk / "run/lock").mkdir(mode=0o1777)
    for name in ("pts", "shm"):
        (disk / "dev" / name).mkdir()
    mount("-t", "devpts", "-o", "newinstance,ptmxmode=666,gid=5", "devpts", str(disk / "dev/pts"))
    mount("-t", "tmpfs", "-o", "mode=1777", "tmpfs", str(disk / "dev/shm"))
    for name, (major, minor) in DEVICES.items():
        os.mknod(disk / "dev" / name, stat.S_IFCHR | 0o666, os.makedev(major, minor))
        (disk / "dev" / name).chmod(0o666)
    for name, target in LINKS.items():
        (disk / "dev" / name).symlink_to(target)


def run() -> NoReturn:
    """Be Debian's process 1."""
    signal.signal(signal.SIGUSR1, lambda *_: os._exit(0))
    print("up", flush=True)
    if not sys.stdin.readline():
        os._exit(0)
    os.dup2(2, 1)
    if os.fork() == 0:
        signal.signal(signal.SIGUSR1, signal.SIG_DFL)
        boot()
    threading.Thread(target=hold, daemon=True).start()
    while True:
        try:
            os.wait()
        except ChildProcessError:
            time.sleep(0.1)


def hold() -> None:
    """End the machine when the process that started it ends."""
    while sys.stdin.read(4096):
        pass
    os._exit(0)


def boot() -> NoReturn:
    """Do what the units of cloud-init and ssh do."""
    for stage in BEFORE_SSH:
        do(stage)
    Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
    subprocess.Popen(["/usr/sbin/sshd", "-D"], stdin=subprocess.DEVNULL, start_new_session=True)
    for stage in AFTER_SSH:
        do(stage)
    print("booted", file=sys.stderr, flush=True)
    os._exit(0)


def do(stage: list[str], **options: Any) -> None:
    began = time.monotonic()
    done = subprocess.run(
        stage, check=False, stdin=subprocess.DEVNULL, start_new_session=True, **options
    )
    took = time.monotonic() - began
    print(f"{' '.join(stage)}: {done.returncode} after {took:.1f} s", file=sys.stderr, flush=True)


if __name__ == "__main__":
    if sys.argv[1:] == ["boot"]:
        run()
    main()
