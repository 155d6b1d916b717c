from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from dataclasses import replace

import pytest

from tests.rehearsal.hosts import make_key
from workbench.cloud.launch import MAX_USER_DATA_NBYTES
from workbench.cloud.userdata import (
    Boot,
    first_host_key,
    is_ready,
    make_host_key,
    show_host_key,
    user_data,
)
from workbench.errors import InputError


@pytest.fixture
def boot(tmp_path):
    make_key(tmp_path / "host")
    make_key(tmp_path / "user")
    return Boot(
        cluster="one",
        host_key=(tmp_path / "host").read_text(),
        host_public=(tmp_path / "host.pub").read_text(),
        user_key=(tmp_path / "user.pub").read_text(),
        prefix="/home/you/an environment",
        python="3.11",
        requirements=tuple(f"package-{n}=={n}.{n}.{n}" for n in range(150)),
        expires=2e9,
    )


def config(boot):
    return json.loads(user_data(boot).removeprefix("#cloud-config\n"))


@pytest.mark.parametrize("user", ["workbench", "root"])
@pytest.mark.skipif(
    not shutil.which("cloud-init"), reason="needs cloud-init, which make test brings to root"
)
def test_cloud_init_itself_finds_nothing_wrong(boot, tmp_path, user):
    path = tmp_path / "user-data"
    path.write_text(user_data(replace(boot, user=user)))

    done = subprocess.run(
        ["cloud-init", "schema", "--config-file", path], check=False, capture_output=True, text=True
    )

    assert "Valid cloud-config" in done.stdout, done.stdout + done.stderr


def test_it_fits_with_many_requirements(boot):
    assert len(user_data(boot)) < MAX_USER_DATA_NBYTES / 2


def test_what_does_not_fit_is_refused_with_the_remedy(boot):
    with pytest.raises(InputError, match="bake an image"):
        user_data(replace(boot, requirements=("x" * MAX_USER_DATA_NBYTES,)))


def test_the_users_private_key_is_not_in_it(boot, tmp_path):
    assert (tmp_path / "user").read_text().splitlines()[-2] not in user_data(boot)


def test_every_script_is_one_that_a_plain_shell_can_read(boot):
    scripts = [line[2] for part in ("bootcmd", "runcmd") for line in config(boot)[part]]

    for script in (*scripts, is_ready(5), make_host_key(), show_host_key()):
        subprocess.run(["sh", "-n"], input=script, text=True, check=True)


def test_the_first_host_key_is_found_in_what_was_sent(boot, tmp_path):
    kind, key, *_ = (tmp_path / "host.pub").read_text().split()

    assert first_host_key(user_data(boot)) == f"{kind} {key}"
    assert first_host_key("") == first_host_key("#!/bin/sh\n") == ""
    assert boot.host_key not in repr(boot)


def test_a_node_makes_one_key_of_its_own_however_often_it_is_asked(tmp_path):
    path = str(tmp_path / "ssh_host_ed25519_key")

    first, second = (
        subprocess.run(
            ["sh", "-c", make_host_key(path)], check=True, capture_output=True, text=True
        ).stdout
        for _ in range(2)
    )

    assert first == second
    assert first.startswith("ssh-ed25519 ")
    assert [one.name for one in tmp_path.iterdir()] == ["ssh_host_ed25519_key.new"]


@pytest.mark.parametrize("baked", [True, False])
def test_an_image_that_was_baked_has_it_all_and_installs_nothing(boot, tmp_path, baked):
    prefix = tmp_path / "environment"
    if baked:
        (prefix / "bin").mkdir(parents=True)
        (prefix / "bin" / "python").symlink_to(sys.executable)
    [[*_, script]] = config(replace(boot, prefix=str(prefix)))["runcmd"]
    script = script.replace("/run/workbench", str(tmp_path / "run"))
    installer = tmp_path / "bin" / "apt-get"
    installer.parent.mkdir()
    installer.write_text("#!/bin/sh\nexit 7\n")
    installer.chmod(0o700)

    path = f"{installer.parent}:{os.environ['PATH']}"
    done = subprocess.run(["sh", "-c", script], check=False, env={"PATH": path})

    assert done.returncode == (0 if baked else 7)
    assert (tmp_path / "run" / ("ready" if baked else "failed")).exists()


def started(boot, tmp_path, **changes):
    """Start the watch of a node as a process here, with its folder and lease in a test's own."""
    off = tmp_path / "off"
    boot = replace(boot, cluster="one", user="root", shutdown=f"touch {off}; exit", **changes)
    [[_, _, script]] = config(boot)["bootcmd"]
    script = script.replace("/run/workbench", str(tmp_path)).replace("/root", str(tmp_path))
    script = script.replace("sleep 5", "sleep 0.05").replace("setsid sh", "exec sh")
    script = script.rstrip().removesuffix("&")
    return off, subprocess.Popen(["sh", "-c", script])


def test_a_node_without_a_lease_by_the_deadline_shuts_down(boot, tmp_path):
    off, watch = started(boot, tmp_path, boot_seconds=0)

    watch.wait(20)

    assert off.exists()


def test_a_node_that_has_expired_before_anybody_came_shuts_down(boot, tmp_path):
    off, watch = started(boot, tmp_path, boot_seconds=600, expires=time.time() - 1)

    watch.wait(20)

    assert off.exists()


def test_a_node_with_a_lease_goes_on_by_what_the_lease_says(boot, tmp_path):
    hold(tmp_path)
    off, watch = started(boot, tmp_path, boot_seconds=0, expires=time.time() - 1)

    try:
        with pytest.raises(subprocess.TimeoutExpired):
            watch.wait(0.5)
    finally:
        watch.terminate()
        watch.wait()

    assert not off.exists()


def hold(folder):
    path = folder / ".local/state/workbench/lease-one.json"
    path.parent.mkdir(parents=True)
    with open("/proc/sys/kernel/random/boot_id") as boot_id:
        path.write_text(json.dumps({"boot": boot_id.read().strip()}))
