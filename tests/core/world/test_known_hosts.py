"""The files for ssh name each host and key exactly."""

from __future__ import annotations

import subprocess

import pytest

from workbench.core.world.known_hosts import (
    agent_config,
    check_line,
    fingerprint,
    known_hosts,
    known_hosts_line,
)
from workbench.core.world.world import Host
from workbench.errors import InputError

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl"


def test_a_line_trusts_one_key_for_one_host_and_drops_the_comment():
    assert known_hosts_line("10.0.0.4", f"{KEY} root@node\n") == f"10.0.0.4 {KEY}"


def test_a_port_of_its_own_is_part_of_the_name():
    assert known_hosts_line("10.0.0.4", KEY, 2222).startswith("[10.0.0.4]:2222 ssh-ed25519 ")
    assert known_hosts_line("10.0.0.4", KEY, 22).startswith("10.0.0.4 ")


@pytest.mark.parametrize(
    "line",
    [
        "",
        "10.0.0.4",
        f"* {KEY}",
        f"10.0.0.? {KEY}",
        f"a,b {KEY}",
        f"!a {KEY}",
        f"@cert-authority a {KEY}",
        f"|1|abc|def {KEY}",
        f"# {KEY}",
        f"a {KEY}\nb {KEY}",
        "a ssh-ed25519 nonsense",
        f"a ssh-rsa {KEY.split()[1]}",
    ],
)
def test_a_line_that_trusts_more_or_nothing_is_refused(line):
    with pytest.raises(InputError):
        check_line(line)


def test_a_file_has_each_line_once():
    line = f"10.0.0.4 {KEY}"

    assert known_hosts([line, f"{line} comment"]) == f"{line}\n"


def test_the_fingerprint_is_the_one_that_ssh_keygen_shows(tmp_path):
    file = tmp_path / "known"
    file.write_text(f"10.0.0.4 {KEY}\n")

    shown = subprocess.run(["ssh-keygen", "-lf", file], capture_output=True, text=True, check=True)

    assert fingerprint(f"10.0.0.4 {KEY}") == shown.stdout.split()[1]


def test_the_agent_asks_no_one_and_trusts_only_the_given_file(tmp_path):
    file = tmp_path / "config"
    hosts = (Host("10.0.0.4", 1, user="ubuntu"), Host("10.0.0.5", 1, port=2222), Host("n3", 1))
    file.write_text(agent_config(hosts, "/run/k nown", "/run/key"))

    def option(host: str) -> dict[str, str]:
        asked = ["ssh", "-G", "-F", file, host]
        text = subprocess.run(asked, capture_output=True, text=True, check=True).stdout
        return dict(line.partition(" ")[::2] for line in text.splitlines())

    assert option("10.0.0.4")["user"] == "ubuntu"
    assert option("10.0.0.5")["port"] == "2222"
    assert option("n3") | {
        "stricthostkeychecking": "true",
        "batchmode": "yes",
        "userknownhostsfile": "/run/k nown",
        "identityfile": "/run/key",
        "identitiesonly": "yes",
    } == option("n3")


def test_a_path_that_would_end_its_line_is_refused():
    with pytest.raises(InputError):
        agent_config((), 'a"\nProxyCommand evil')
