"""What a bare host says, whether it can be equipped, and what it gets and loses again."""

from __future__ import annotations

import os
import platform
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from workbench.cloud.hosts.box import (
    LOOK,
    MAKE,
    UV_NAME,
    BoxFacts,
    BoxPlace,
    check_box,
    check_names,
    choose_addresses,
    purge_command,
    read_look,
)
from workbench.errors import MachineError

GIB = 1 << 30
FIT = BoxFacts(
    "one", "Linux", platform.machine(), "/home/you", (2, 36), 8, 0, frozenset({"rw"}), 50 * GIB,
    ("10.0.0.4",), locked=False, equipped=False,
)  # fmt: skip
SAID = """\
Welcome!
workbench-box name gpu-17
workbench-box system Linux
workbench-box machine x86_64
workbench-box home /workspace/you
workbench-box libc ldd (Ubuntu GLIBC 2.39-0ubuntu8) 2.39
workbench-box cores 16
workbench-box gpus 1
workbench-box free /dev/nvme1n1 103081248 61324 97737328 1% /workspace
workbench-box connection 203.0.113.9 51122 172.18.0.2 22
workbench-box mount / rw,relatime
workbench-box mount /workspace rw,noexec
workbench-box local 127.0.0.1
workbench-box local 172.18.0.2
workbench-box local 10.1.2.3
"""


def test_what_a_host_says_is_read_behind_its_greeting():
    facts = read_look(SAID)

    assert (facts.name, facts.home, facts.libc) == ("gpu-17", "/workspace/you", (2, 39))
    assert facts.free_nbytes == 97737328 << 10
    assert facts.options == {"rw", "noexec"}
    assert not facts.equipped
    assert read_look(f"{SAID}workbench-box lacks libstdc++.so.6\n").lacks == "libstdc++.so.6"


def test_a_rank_has_a_gpu_of_its_own_or_a_core():
    assert read_look(SAID).slots == 1
    assert replace(FIT, cores=8).slots == 8


def test_the_address_of_the_login_comes_first_and_loopback_is_left_out():
    assert read_look(SAID).addresses == ("172.18.0.2", "10.1.2.3")


def test_this_machine_says_all_of_that(tmp_path):
    done = subprocess.run(
        ["sh", "-c", LOOK, "sh", "mine"],
        check=True, capture_output=True, text=True, env={**os.environ, "HOME": str(tmp_path)},
    )  # fmt: skip
    facts = read_look(done.stdout)

    assert (facts.system, facts.machine) == ("Linux", platform.machine())
    assert facts.home == str(tmp_path.resolve())
    assert facts.cores > 0
    assert facts.free_nbytes > 0
    assert facts.options
    assert not facts.lacks


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"home": ""}, "no home directory"),
        ({"machine": "sparc64"}, "sparc64 processors, and this one is Linux with"),
        ({"system": "FreeBSD"}, "is a FreeBSD machine"),
        ({"libc": (2, 12)}, "has glibc 2.12, and compiled packages need 2.17"),
        ({"libc": (0, 0)}, "has no glibc"),
        ({"lacks": "libstdc++.so.6"}, "has no libstdc.+ compiled packages need.*libstdc.+6"),
        ({"locked": True}, "/home/you on one cannot be written"),
        ({"options": frozenset({"ro"})}, "cannot be written"),
        ({"options": frozenset({"rw", "noexec"})}, "is mounted noexec"),
        ({"free_nbytes": GIB}, "has 1.1 GB free, and this environment needs 2.1 GB"),
    ],
)
def test_a_host_that_cannot_be_equipped_is_refused_in_a_sentence(change, said):
    with pytest.raises(MachineError, match=said):
        check_box("one", replace(FIT, **change), 2 * GIB)


def test_one_that_is_equipped_needs_no_more_space():
    check_box("one", replace(FIT, free_nbytes=0, equipped=True), GIB)


def test_hosts_of_one_name_are_refused_as_mpi_would_take_them_for_one():
    with pytest.raises(MachineError, match="a and c both call themselves 'ubuntu'"):
        check_names({"a": "ubuntu", "b": "debian", "c": "ubuntu"})
    check_names({"a": "ubuntu", "b": "debian"})


def test_the_first_address_that_all_others_reach_is_chosen():
    known = {"a": ("10.0.0.1", "192.0.2.1"), "b": ("10.0.0.2",)}
    tried = {"a": {"10.0.0.2": ""}, "b": {"10.0.0.1": "timed out", "192.0.2.1": ""}}

    assert choose_addresses(known, tried) == {"a": "192.0.2.1", "b": "10.0.0.2"}


def test_every_pair_that_does_not_reach_is_named_with_the_remedy():
    known = {"a": ("10.0.0.1",), "b": ("172.17.0.2",), "c": ()}
    tried = {
        "a": {"172.17.0.2": "no route"},
        "b": {"10.0.0.1": ""},
        "c": {"10.0.0.1": "", "172.17.0.2": "refused"},
    }

    with pytest.raises(MachineError) as raised:
        choose_addresses(known, tried)
    said = str(raised.value)
    assert "a does not reach b (172.17.0.2: no route)" in said
    assert "c does not reach b (172.17.0.2: refused)" in said
    assert "a does not reach c (no address)" in said
    assert "a VPN" in said


class Box:
    """A home directory that scripts are run in, with a program in uv's place."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.uv = home / ".workbench" / UV_NAME
        self.uv.parent.mkdir()
        self.become('for last; do :; done; mkdir -p "$last/bin"; ln -sf /bin/true '
                    '"$last/bin/python"')  # fmt: skip

    def become(self, script: str) -> None:
        self.uv.write_text(f"#!/bin/sh\necho made >> {self.home}/log\n{script}\n")
        self.uv.chmod(0o700)

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command, check=False, capture_output=True, text=True, cwd=self.home,
            env={**os.environ, "HOME": str(self.home)},
        )  # fmt: skip

    def make(self, place: BoxPlace, python: str = "3.11") -> int:
        return self.run("sh", "-c", MAKE, "sh", place.name, place.common, python).returncode

    @property
    def made(self) -> int:
        return len((self.home / "log").read_text().splitlines())


@pytest.fixture
def box(tmp_path: Path) -> Box:
    return Box(tmp_path)


def test_a_second_set_up_makes_nothing_and_another_python_makes_it_again(box):
    place = BoxPlace("again", f"{box.home}")

    assert [box.make(place), box.make(place), box.made] == [0, 0, 1]
    assert Path(place.python).exists()
    assert (box.make(place, "3.12"), box.made) == (0, 2)
    box.run(*purge_command(place))


def test_an_interrupted_set_up_is_done_again(box):
    place = BoxPlace("cut", f"{box.home}")
    box.become("exit 1")
    assert box.make(place) == 1

    box.become("exit 0")
    assert (box.make(place), box.made) == (0, 2)
    box.run(*purge_command(place))


def test_a_folder_of_another_user_is_not_used(box, tmp_path_factory):
    place = BoxPlace("foreign", f"{box.home}")
    Path(place.common).symlink_to(tmp_path_factory.mktemp("theirs"))

    assert box.make(place) == 1
    Path(place.common).unlink()


def test_two_clusters_share_what_they_can_and_the_last_takes_all_with_it(box):
    one, other = BoxPlace("one", f"{box.home}"), BoxPlace("other", f"{box.home}")
    assert [box.make(one), box.make(other)] == [0, 0]

    assert box.run(*purge_command(one)).returncode == 0
    assert not Path(one.common).exists()
    assert not (box.home / one.folder).exists()
    assert Path(other.python).exists()

    assert box.run(*purge_command(other)).returncode == 0
    assert not (box.home / ".workbench").exists()
    assert not Path(other.common).exists()
    assert box.run(*purge_command(other)).returncode == 0


def test_two_people_who_log_in_as_one_user_have_folders_of_their_own():
    assert BoxPlace("default", "me").folder != BoxPlace("default", "you").folder
    assert BoxPlace("default", "me").common != BoxPlace("default", "you").common
