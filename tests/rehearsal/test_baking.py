"""An image of a node has its set-up, and neither its own keys nor files of users."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.rehearsal.ec2.endpoint import Endpoint
from tests.rehearsal.hosts import PLACE
from tests.rehearsal.test_ec2_cluster import NAME, REGION, Shell, open_shell
from workbench.cloud.ec2.provider import Ec2
from workbench.core.fleet.model import Leftover, Node

pytestmark = [pytest.mark.root, pytest.mark.mpi, pytest.mark.timeout(600)]
PREPARE = """
mkdir -p ~/.ssh /home/user && echo for all > /home/user/kept
echo secret > ~/.ssh/id_of_mine
echo "workbench up" > ~/.bash_history
echo "private log-in" > /var/log/auth.log
mkdir -p /var/lib/cloud/instance && echo keys > /var/lib/cloud/instance/user-data.txt
"""
LEAVE = """
import pathlib
folder = pathlib.Path.home() / "workbench-output"
folder.mkdir(exist_ok=True)
(folder / "model.npz").write_text("weights")
"""
REMOVE = """
import pathlib, shutil
shutil.rmtree(pathlib.Path.home() / "workbench-output")
"""


def disk_of(image: str) -> dict[str, str]:
    """What the image's disk holds: each file's path and text."""
    [picture] = PLACE.glob(f"*/{image}.tar")
    listed = subprocess.check_output(["tar", "-tvf", picture], text=True).splitlines()
    names = [line.split(maxsplit=5)[5] for line in listed if line.startswith("-")]
    return {
        name.lstrip("/"): subprocess.check_output(
            ["tar", "-P", "-xOf", picture, name], text=True, errors="replace"
        )
        for name in names
        if not name.startswith(("/etc/", "/var/log/")) or "ssh" in name or "auth" in name
    }


@dataclass(frozen=True)
class Baked:
    """A node from which an image was baked, after a first attempt that was refused."""

    shell: Shell
    node: Node
    refused: str  # the first attempt's error
    resources: tuple[Leftover, ...]  # of the cluster, after the first attempt
    images: tuple[Leftover, ...]  # the same with images
    printed: str  # by the second attempt

    @property
    def image(self) -> str:
        return next(word for word in self.printed.split() if word.startswith("ami-"))


@pytest.fixture(scope="module")
def baked(one_endpoint: Endpoint, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Baked]:
    folder = tmp_path_factory.mktemp("baked")
    with open_shell(one_endpoint, folder) as shell:
        (folder / "prepare.sh").write_text(PREPARE)
        shell.up(1, "--prepare", str(folder / "prepare.sh"))
        [node] = shell.nodes()
        script = shell.script.read_text()
        shell.script.write_text(LEAVE)
        shell.run()
        with pytest.raises(AssertionError) as refused:
            shell.do("image", "bake", "--cluster", NAME, "--yes")
        ec2 = Ec2(REGION)
        found = ec2.leftovers(NAME), ec2.leftovers(NAME, images=True)
        shell.script.write_text(REMOVE)
        shell.run()
        shell.script.write_text(script)
        shell.endpoint.settings(imaging=4, picture=2)
        printed = shell.do("image", "bake", "--cluster", NAME, "--yes")
        yield Baked(shell, node, str(refused.value), *found, printed)


def test_a_node_with_what_a_run_left_is_not_baked(baked: Baked) -> None:
    assert re.search(r"workbench-output holds files of yours .* bake from", baked.refused)
    assert baked.images == baked.resources


def test_an_image_has_what_is_set_up_and_nothing_that_is_a_nodes_own(baked: Baked) -> None:
    shell, printed = baked.shell, baked.printed
    assert "costs about $0.05 per GiB and month: at most $2.50 a month" in printed
    start = f"`workbench up --ec2 --region {REGION} --image {baked.image}`"
    assert f"start nodes from it with {start}" in printed
    disk = disk_of(baked.image)
    assert disk["home/user/kept"] == "for all\n"
    key = (shell.home / "clusters" / NAME / "key").read_text()
    for name, text in disk.items():
        assert "ssh_host_" not in name, name
        assert not any(part in name for part in (".ssh/", ".workbench/", "lease-", "history")), name
        assert "var/lib/cloud/" not in name, name
        assert key.splitlines()[2] not in text, name
    assert "private log-in" not in disk.get("var/log/auth.log", "")
    assert "private log-in" not in (
        Path("/var/log/auth.log").read_text() if Path("/var/log/auth.log").exists() else ""
    )

    # The node is as it was, and a world on it still runs.
    [host] = [json.loads((shell.home / "clusters" / NAME / "host_keys.json").read_text())]
    assert [one["id"] for one in host] == [baked.node.id]
    assert len(shell.run()) == 1
    shell.kill()
    shell.do("status")
    assert len(shell.run()) == 1  # a new session was let in


@pytest.mark.weekly  # it starts a second node, for most of a minute
def test_a_node_that_is_started_from_an_image_installs_nothing(baked: Baked) -> None:
    shell, image = baked.shell, baked.image
    shell.do("delete", "--cluster", NAME)
    assert {one.kind for one in Ec2(REGION).leftovers(images=True)} == {"image", "snapshot"}
    assert image in shell.do("sweep-leaks", "--region", REGION, "--json")

    shell.up(1, "--image", image)
    hosts = shell.run()

    assert len(hosts) == 1
    [template] = [
        params for action, params in shell.endpoint.calls() if action == "CreateLaunchTemplate"
    ][-1:]
    assert template["LaunchTemplateData"]["ImageId"] == image
    shell.do("delete", "--cluster", NAME)
    deleted = shell.do("image", "delete", image, "--region", REGION, "--yes")
    assert f"Deleted {image}, snap-" in deleted
    assert Ec2(REGION).leftovers(images=True) == ()
    shell.nothing_is_left()
