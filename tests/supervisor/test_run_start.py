from pathlib import Path

from workbench.supervisor.run_start import _free_port


def test_no_connection_of_another_program_takes_the_port_before_the_ranks_listen() -> None:
    ephemeral = Path("/proc/sys/net/ipv4/ip_local_port_range").read_text()

    ports = [_free_port() for _ in range(50)]

    assert max(ports) < int(ephemeral.split()[0])
    assert len(set(ports)) > 40  # a run does not wait for the port of the one before
