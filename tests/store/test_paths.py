"""The data directory belongs to its user alone; otherwise one sentence reports the problem."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import platformdirs
import pytest

from workbench.errors import MachineError
from workbench.store import Store
from workbench.store.paths import cluster_directory, home_directory, home_path, run_directory


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_the_data_directory_is_where_the_person_says(home) -> None:
    assert home_path() == home
    assert not home.exists()


def test_a_relative_folder_is_meant_from_here(monkeypatch, tmp_path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WORKBENCH_HOME", "data")

    assert home_path() == tmp_path / "data"


def test_it_lies_in_the_persons_data_directory_otherwise(monkeypatch) -> None:
    monkeypatch.setenv("WORKBENCH_HOME", "")

    assert home_path() == Path(platformdirs.user_data_dir("workbench"))


def test_it_is_made_for_its_owner_alone(home) -> None:
    assert mode(home_directory()) == 0o700
    assert mode(cluster_directory("lab")) == 0o700


def test_what_is_above_it_is_made_for_its_owner_alone_too(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("WORKBENCH_HOME", str(tmp_path / "data" / "of" / "mine"))
    before = os.umask(0)

    cluster_directory("lab")

    os.umask(before)
    made = [path for path in tmp_path.rglob("*") if path.is_dir()]
    assert {mode(path) for path in made} == {0o700}
    assert len(made) == 5


@pytest.mark.parametrize("was", [0o755, 0o777, 0o710, 0o2750])
def test_one_that_is_open_is_closed(home, was) -> None:
    home.mkdir()
    home.chmod(was)

    home_directory()

    assert mode(home) == was & 0o7000 | 0o700


@pytest.mark.root
@pytest.mark.parametrize("linked", [False, True])
def test_one_that_is_another_users_is_refused(tmp_path, monkeypatch, linked) -> None:
    theirs, link = tmp_path / "theirs", tmp_path / "link"
    theirs.mkdir(mode=0o777)
    os.chown(theirs, 65534, -1)
    link.symlink_to(theirs)
    monkeypatch.setenv("WORKBENCH_HOME", str(link if linked else theirs))

    with pytest.raises(MachineError, match=r"belongs to nobody, not to root, .* of your own\.$"):
        Store()

    assert not [*theirs.iterdir()]


def test_naming_a_runs_folder_does_not_make_it(home) -> None:
    assert run_directory("some-run") == home / "runs" / "some-run"
    assert not (home / "runs").exists()


def test_a_store_without_a_path_lies_in_it(home) -> None:
    with Store() as store:
        assert store.path == home / "store.sqlite3"


@pytest.mark.parametrize("make", [home_directory, lambda: cluster_directory("lab"), Store])
def test_a_data_directory_below_a_file_is_refused(make, tmp_path, monkeypatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("WORKBENCH_HOME", str(tmp_path / "file" / "home"))

    with pytest.raises(MachineError) as refusal:
        make()

    assert str(refusal.value) == (
        f"The data directory {tmp_path}/file/home cannot be created (Not a directory); "
        "set WORKBENCH_HOME to a folder that you may write."
    )


def test_a_clusters_folder_that_cannot_be_made_is_refused(home) -> None:
    home_directory()
    (home / "clusters").touch()

    with pytest.raises(MachineError) as refusal:
        cluster_directory("lab")

    assert str(refusal.value) == (
        f"The data directory {home}/clusters/lab cannot be created (Not a directory); "
        "set WORKBENCH_HOME to a folder that you may write."
    )


def test_a_data_directory_on_a_read_only_disk_is_refused(on_disk) -> None:
    answer = on_disk("home_on_disk.py", shell='mount -o remount,ro "$1"')

    assert "cannot be created (Read-only file system); set WORKBENCH_HOME" in answer.stdout
