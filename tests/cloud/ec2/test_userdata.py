from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from dataclasses import replace

import pytest

from tests.cloud.rented.test_boot_deadline import is_over, read_sign
from tests.rehearsal.hosts import make_key
from workbench.cloud.ec2.launch_template import MAX_USER_DATA_NBYTES
from workbench.cloud.rented import userdata
from workbench.cloud.rented.userdata import (
    APT,
    UV_VERSION,
    BootData,
    first_host_key,
    is_ready,
    make_host_key,
    show_host_key,
    user_data,
    uv_requirement,
)


@pytest.fixture
def boot(tmp_path):
    make_key(tmp_path / "host")
    make_key(tmp_path / "user")
    return BootData(
        cluster="one",
        host_key=(tmp_path / "host").read_text(),
        host_public=(tmp_path / "host.pub").read_text(),
        user_key=(tmp_path / "user.pub").read_text(),
        prefix="/home/you/an environment",
        python="3.11",
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


def test_it_takes_less_than_half_of_what_ec2_takes(boot):
    assert len(user_data(boot)) < MAX_USER_DATA_NBYTES / 2


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
    script = script.replace(userdata.FOLDER, str(tmp_path)).replace(APT, "true")
    installer = tmp_path / "bin" / "python3"
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


def test_a_node_with_a_lease_continues_by_what_the_lease_says(boot, tmp_path):
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


APT_GET = """\
#!/bin/sh
echo "$@" >> {reported}
case "$*" in
  *update*) exit {update} ;;
  *) [ "$(grep -c install {reported})" -ge {works} ] || exit 100; touch {there} ;;
esac
"""


def packages(tmp_path, *, update=0, works=1):
    """Run what brings the packages, on a node whose apt-get is ours; return its calls."""
    reported, there = tmp_path / "calls", tmp_path / "there"
    apt = tmp_path / "apt-get"
    apt.write_text(APT_GET.format(reported=reported, there=there, update=update, works=works))
    apt.chmod(0o700)
    script = userdata.packages([(f"test -e {there}", "one"), ("true", "two")], seconds=0)
    path = f"{tmp_path}:{os.environ['PATH']}"
    done = subprocess.run(["sh", "-eu"], input=script, text=True, check=False, env={"PATH": path})
    calls = reported.read_text().splitlines() if reported.exists() else []
    return done.returncode, [line.split(maxsplit=5)[-1] for line in calls]


def test_only_what_an_image_lacks_is_installed_and_with_nothing_lacking_apt_is_not_asked(tmp_path):
    status, calls = packages(tmp_path)

    assert status == 0
    assert [call.split()[-1] for call in calls] == ["update", "one"]
    assert packages(tmp_path) == (0, calls)  # it is there now


def test_a_list_of_someone_elses_that_fails_does_not_keep_a_node_from_what_it_lacks(tmp_path):
    status, calls = packages(tmp_path, update=100)

    assert (status, len(calls)) == (0, 2)


def test_what_is_locked_for_a_while_is_tried_again_for_a_limited_time(tmp_path):
    assert packages(tmp_path, works=3)[0] == 0

    (tmp_path / "there").unlink()
    (tmp_path / "calls").unlink()
    status, calls = packages(tmp_path, works=99)
    assert (status, len(calls)) == (1, 10)


SIGNS = ["", "100 60 0\n", "400 0 0\n", "100 9999 500\n", "99999 1 1\n", "nonsense 1 2\n"]


@pytest.mark.parametrize("sign", SIGNS)
@pytest.mark.parametrize("up", [100, 159, 160, 399, 1200])
def test_the_watch_of_a_node_decides_as_the_function_does(boot, tmp_path, sign, up):
    off, now = tmp_path / "off", 600
    boot = replace(boot, boot_seconds=300, expires=now + 1, shutdown=f"touch {off}")
    uptime = tmp_path / "uptime"
    uptime.write_text("50.25 1.0\n")
    (tmp_path / "sign").write_text(sign)
    # Its clock jumps while it waits for the first time; at the second wait it ends.
    for name, line in {
        "sleep": f'[ "$(cat {uptime})" = "50.25 1.0" ] && echo "{up}.75 1.0" > {uptime}',
        "date": f"echo {now}",
    }.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{line}\n")
        (tmp_path / name).chmod(0o700)
    script = userdata.watch(boot, str(uptime)).replace("/run/workbench", str(tmp_path))

    path = f"{tmp_path}:{os.environ['PATH']}"
    subprocess.run(["sh", "-u"], input=script, text=True, check=False, env={"PATH": path})

    expected = is_over(up, now, read_sign(sign), start=50, boot_seconds=300, expires=boot.expires)
    assert off.exists() is expected


def test_a_node_that_is_being_set_up_ends_only_when_its_supervisor_is_gone(boot, tmp_path):
    off, watch = started(boot, tmp_path, boot_seconds=2, expires=time.time() - 1)
    leave = userdata.sign(seconds=2, expires=0).replace("/run/workbench", str(tmp_path))

    try:
        for _ in range(20):
            subprocess.run(["sh", "-c", leave], check=True)
            with pytest.raises(subprocess.TimeoutExpired):
                watch.wait(0.25)
        lived = not off.exists()
        watch.wait(20)
    finally:
        watch.terminate()
        watch.wait()

    assert lived
    assert off.exists()


def test_the_node_installs_the_uv_that_was_tested_and_no_other_file_of_that_name(boot):
    text = user_data(boot)

    assert "--require-hashes -r /opt/workbench/uv/uv.txt" in text
    assert uv_requirement().startswith(f"uv=={UV_VERSION} --hash=sha256:")
    assert f"echo '{uv_requirement()}' > /opt/workbench/uv/uv.txt" in text
