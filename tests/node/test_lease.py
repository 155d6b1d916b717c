"""A lease that is not renewed ends the node; one that is renewed, released or replaced does not."""

from __future__ import annotations

import shlex
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from tests.clock import SetClock
from tests.waiting import until
from workbench.errors import InputError, MachineError
from workbench.node.lease import Lease, take

Start = Callable[..., None]


@pytest.fixture
def lease(tmp_path: Path) -> Lease:
    return Lease(tmp_path / "state", "one")


@pytest.fixture
def start(lease: Lease, tmp_path: Path) -> Iterator[Start]:
    """Start a lease whose command leaves a file that ``fired`` sees."""

    def start(seconds: float, name: str = "fired", **options: float) -> None:
        more = [word for key, value in options.items() for word in (f"--{key}", str(value))]
        subprocess.run(
            [
                *(sys.executable, "-m", "workbench.node.lease", "--cluster", lease.cluster),
                *("--folder", str(lease.folder), "--seconds", str(seconds), *more),
                *("--command", shlex.join(["touch", str(tmp_path / name)])),
            ],
            check=True,
            timeout=20,
        )

    yield start
    for process in processes(lease):
        process.kill()
    until(lambda: not processes(lease), what="end of the leases")


def processes(lease: Lease) -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter(["cmdline"]):
        if str(lease.folder) in (process.info["cmdline"] or []):
            found.append(process)
    return found


def test_it_fires_when_it_is_not_renewed_and_not_before(start, tmp_path):
    began = time.monotonic()
    start(1.5)

    until((tmp_path / "fired").exists, what="command")

    assert time.monotonic() - began > 1.4


def test_it_outlives_its_starter_and_renewals_hold_it_off(start, lease, tmp_path):
    start(3.0)
    (process,) = processes(lease)
    assert process.ppid() != psutil.Process().pid

    for _ in range(14):
        lease.renew(3.0)
        time.sleep(0.25)
    assert not (tmp_path / "fired").exists()

    until((tmp_path / "fired").exists, what="command")


def test_started_again_it_takes_the_place_of_the_one_before(start, lease, tmp_path):
    start(20, "first")
    (first,) = processes(lease)
    start(60, "second")

    until(lambda: len(processes(lease)) == 1, what="end of the first")

    assert processes(lease) != [first]
    assert not (tmp_path / "first").exists()


def test_leases_of_two_clusters_do_not_meet(start, lease, tmp_path):
    start(60)

    with pytest.raises(MachineError, match="No lease of the cluster two"):
        Lease(lease.folder, "two").renew(5)


def test_what_is_released_ends_and_fires_nothing(start, lease, tmp_path):
    start(1.5)
    lease.release()

    until(lambda: not processes(lease), what="end of the lease")

    assert not (tmp_path / "fired").exists()
    with pytest.raises(MachineError):
        lease.renew(5)


def test_it_fires_even_where_its_files_are_lost(start, lease, tmp_path):
    start(1.5)
    lease.holder_file.unlink()
    lease.until_file.write_text("half a li")

    until((tmp_path / "fired").exists, what="command")


def test_no_renewal_goes_beyond_its_last_moment(start, lease, tmp_path):
    start(60, expires=time.time() + 1.5)
    lease.renew(3600)

    until((tmp_path / "fired").exists, what="command")


def test_its_files_are_the_owners_alone(start, lease):
    start(60)

    assert stat.S_IMODE(lease.folder.stat().st_mode) == 0o700
    for file in lease.folder.iterdir():
        assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_a_lease_from_before_the_node_was_started_again_does_not_count(lease):
    take(lease, 60, "true", 0)
    assert lease.until() is not None

    lease.until_file.write_text('["another boot", 1.0]')

    assert lease.until() is None


def test_without_a_command_there_is_no_lease(lease):
    with pytest.raises(InputError):
        take(lease, 60, " ", 0)


@pytest.mark.parametrize("seconds", [-3600.0, 3600.0], ids=["back", "forth"])
def test_a_clock_that_is_set_neither_ends_it_nor_puts_its_last_moment_off(
    start, tmp_path, monkeypatch, seconds
):
    clock = SetClock(tmp_path / "clock", monkeypatch)
    began = time.monotonic()
    start(60, expires=time.time() + 4.0)

    clock.set(seconds)

    until((tmp_path / "fired").exists, what="command")
    assert 3.0 < time.monotonic() - began < 15.0
