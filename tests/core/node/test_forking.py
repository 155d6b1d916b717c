"""Which ranks a fork server forks, and which start by themselves."""

from __future__ import annotations

from dataclasses import replace

import pytest

from workbench.core.node.forking import ForkContext, RankRequest, is_same_group, refusal

PYTHON = "/env/bin/python"
HERE = ForkContext("user 1", "/a", 0, (1024.0, float("inf")))
ENVIRONMENT = {"PATH": "/bin", "LANG": "C"}
REQUEST = RankRequest(
    (PYTHON, "-m", "engine"), ENVIRONMENT, HERE, "/", 0o22, (), (0,), 0, (), (), (0, 1, 2), 1
)


def why_not(request: RankRequest, *, is_privileged: bool = False) -> str:
    return refusal(request, PYTHON, ENVIRONMENT, HERE, is_privileged=is_privileged)


def surrounded(**changes: object) -> RankRequest:
    return replace(REQUEST, surroundings=replace(HERE, **changes))  # type: ignore[arg-type]  # of several types


@pytest.mark.parametrize(
    "added",
    [
        {},
        {"OMPI_COMM_WORLD_RANK": "1"},
        {"OMP_NUM_THREADS": "4", "PMI_FD": "7"},
        {"MPLBACKEND": ""},
        {"SSH_CONNECTION": "10.0.0.1 4711 10.0.0.2 22", "XDG_SESSION_ID": "7"},
    ],
)
def test_a_rank_is_forked_whatever_its_launcher_sets(added: dict[str, str]) -> None:
    assert why_not(replace(REQUEST, environment={**ENVIRONMENT, **added})) == ""


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        (replace(REQUEST, arguments=("/other/python", "-m", "engine")), "same Python"),
        (replace(REQUEST, arguments=(PYTHON, "script.py", "--x")), "same Python"),
        (replace(REQUEST, arguments=(PYTHON, "-m")), "same Python"),
        (replace(REQUEST, environment={"PATH": "/bin", "LANG": "ja"}), "differs in LANG"),
        (replace(REQUEST, environment={"PATH": "/bin"}), "differs in LANG"),
        (replace(REQUEST, environment={**ENVIRONMENT, "LD_PRELOAD": "x"}), "LD_PRELOAD"),
        (surrounded(identity="user 2"), "another user"),
        (surrounded(cgroup="/b"), "control group"),
        (surrounded(nice=-5), "priority"),
        (surrounded(hard_limits=(4096.0, float("inf"))), "resource limits"),
    ],
)
def test_a_rank_that_a_fork_could_not_be_starts_by_itself(
    request_: RankRequest, words: str
) -> None:
    assert words in why_not(request_)


@pytest.mark.parametrize(
    ("other", "same"),
    [
        ("/user.slice/user-1000.slice/session-c2.scope", True),
        ("/user.slice/user-1001.slice/session-3.scope", False),
        ("/user.slice/user-1000.slice/run-3.scope", False),
        ("/system.slice/session-3.scope", False),
    ],
)
def test_each_login_of_a_user_may_have_a_control_group_of_its_own(other: str, same: bool) -> None:
    here = "/user.slice/user-1000.slice/session-3.scope"
    before = "9:pids:/user.slice\n0::"

    assert is_same_group(f"{before}{here}\n", f"{before}{other}\n") is same


def test_root_may_raise_limits_and_priority() -> None:
    asked = surrounded(nice=-5, hard_limits=(4096.0, float("inf")))

    assert why_not(asked, is_privileged=True) == ""
