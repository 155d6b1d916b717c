"""An image of a node has all that is set up on it, and nothing that is its own or a person's."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.rehearsal.conftest import possible
from tests.rehearsal.hosts import PLACE
from tests.rehearsal.test_ec2_cluster import NAME, REGION, Shell, one_endpoint, shell
from workbench.cloud.ec2 import Ec2

__all__ = ["one_endpoint", "possible", "shell"]
pytestmark = [pytest.mark.root, pytest.mark.mpi, pytest.mark.timeout(600)]
PREPARE = """
mkdir -p ~/.ssh /home/user && echo for all > /home/user/kept
echo secret > ~/.ssh/id_of_mine
echo "workbench up" > ~/.bash_history
echo "somebody came" > /var/log/auth.log
mkdir -p /var/lib/cloud/instance && echo told > /var/lib/cloud/instance/user-data.txt
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


def baked_in(said: str) -> str:
    return next(word for word in said.split() if word.startswith("ami-"))


def test_an_image_has_what_is_set_up_and_nothing_that_is_a_nodes_own(
    shell: Shell, tmp_path: Path
) -> None:
    (tmp_path / "prepare.sh").write_text(PREPARE)
    real_log = Path("/var/log/auth.log").exists()
    shell.up(1, "--prepare", str(tmp_path / "prepare.sh"))
    [node] = shell.nodes()
    shell.endpoint.settings(imaging=8, picture=4)

    said = shell.do("image", "bake", "--cluster", NAME, "--yes")

    image = baked_in(said)
    assert "costs about $0.05 per GiB and month: at most $2.50 a month" in said
    assert (
        f"start nodes from it with `workbench up --ec2 --region {REGION} --image {image}`" in said
    )
    disk = disk_of(image)
    assert disk["home/user/kept"] == "for all\n"
    key = (shell.home / "clusters" / NAME / "key").read_text()
    for name, text in disk.items():
        assert "ssh_host_" not in name, name
        assert not any(part in name for part in (".ssh/", ".workbench/", "lease-", "history")), name
        assert "var/lib/cloud/" not in name, name
        assert key.splitlines()[2] not in text, name
    assert "somebody came" not in disk.get("var/log/auth.log", "")
    assert Path("/var/log/auth.log").exists() is real_log

    # The node is as it was, and a world on it still runs.
    [host] = [json.loads((shell.home / "clusters" / NAME / "host_keys.json").read_text())]
    assert [one["id"] for one in host] == [node.id]
    assert len(shell.run()) == 1
    shell.kill()
    shell.do("status")
    assert len(shell.run()) == 1  # a new session was let in

    shell.do("delete", "--cluster", NAME)
    assert {one.kind for one in Ec2(REGION).leftovers(images=True)} == {"image", "snapshot"}
    swept = shell.do("sweep-leaks", "--region", REGION, "--yes")
    assert image in swept
    assert Ec2(REGION).leftovers(images=True) == ()


def test_a_node_that_is_started_from_an_image_installs_nothing(shell: Shell) -> None:
    shell.up(1)
    image = baked_in(shell.do("image", "bake", "--cluster", NAME, "--yes"))
    shell.do("delete", "--cluster", NAME)

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
    shell.nothing_is_left()


def test_a_node_with_what_a_run_left_is_not_baked(shell: Shell) -> None:
    shell.up(1)
    shell.script.write_text(
        "import pathlib\nfolder = pathlib.Path.home() / 'workbench-output'\n"
        "folder.mkdir(exist_ok=True)\n(folder / 'model.npz').write_text('weights')\n"
    )
    shell.run()

    with pytest.raises(AssertionError, match=r"workbench-output holds files of yours .* bake from"):
        shell.do("image", "bake", "--cluster", NAME, "--yes")

    assert Ec2(REGION).leftovers(NAME, images=True) == Ec2(REGION).leftovers(NAME)
    shell.do("delete", "--cluster", NAME)
