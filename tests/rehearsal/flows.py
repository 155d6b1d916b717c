"""Limit each TCP connection of a host to less than its link, as EC2 does."""

from __future__ import annotations

from tests.rehearsal.hosts import RehearsalHost

CLASSES = 1024
_FIRST = 0x100
_NETWORK = 0xFFF00000  # <linux/filter.h>: offsets from the network header


def limit_flows(host: RehearsalHost, total: float, flow: float) -> None:
    """Let ``total`` (10⁶ bits a second) leave a host, and ``flow`` of each connection.

    Linux's own fair queue can hold each flow, but few kernels have it. So there are classes, and a
    connection's two ports say which is its; two connections may share one.
    """
    lines = [
        "qdisc replace dev eth0 root handle 1: htb default 2",
        f"class add dev eth0 parent 1: classid 1:1 htb rate {total:g}mbit quantum 60000",
        f"class add dev eth0 parent 1:1 classid 1:2 htb rate {total:g}mbit quantum 60000",
        *(
            f"class add dev eth0 parent 1:1 classid 1:{_FIRST + n:x} htb rate 1mbit "
            f"ceil {flow:g}mbit quantum 60000 burst 16kb cburst 32kb"
            for n in range(CLASSES)
        ),
        f'filter add dev eth0 parent 1: protocol ip bpf bytecode "{_bytecode()}" flowid 1:2',
    ]
    host.run("tc", "-batch", "-", input="\n".join(lines) + "\n")


def count_used(host: RehearsalHost, least: int) -> int:
    """Return how many connections sent ``least`` bytes or more."""
    reported = host.run("tc", "-s", "class", "show", "dev", "eth0")
    parts = [one.split() for one in reported.split("class htb ")[1:]]
    sent = {one[0]: int(one[one.index("Sent") + 1]) for one in parts}
    return sum(1 for name, count in sent.items() if int(name[2:], 16) >= _FIRST and count >= least)


def _bytecode() -> str:
    """Return the program, in classic BPF, that names the class of a TCP packet by its ports."""
    program = (
        (0x30, 0, 0, _NETWORK + 9),  # A = protocol
        (0x15, 0, 12, 6),  # not TCP: the last line
        (0x30, 0, 0, _NETWORK),
        (0x54, 0, 0, 0x0F),
        (0x64, 0, 0, 2),
        (0x07, 0, 0, 0),  # X = length of the IP header
        (0x48, 0, 0, _NETWORK),
        (0x02, 0, 0, 0),  # M[0] = source port
        (0x48, 0, 0, _NETWORK + 2),  # A = target port
        (0x61, 0, 0, 0),
        (0x0C, 0, 0, 0),  # A += M[0]
        (0x54, 0, 0, CLASSES - 1),
        (0x04, 0, 0, (1 << 16) + _FIRST),
        (0x16, 0, 0, 0),  # A is the class
        (0x06, 0, 0, 0),  # no class
    )
    lines = ",".join(" ".join(map(str, line)) for line in program)
    return f"{len(program)},{lines}"
