"""What uninstall deletes is listed first, and nothing goes without a yes."""

from __future__ import annotations

import shutil

import pytest

from workbench.cluster.profile import install_profile


@pytest.fixture
def profile(monkeypatch, tmp_path):
    """A profile of ipyparallel, in a folder of this test."""
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    return install_profile()


def test_nothing_is_deleted_without_a_yes(workbench, store, home, profile):
    store.wish_cluster("lab", up=True, ranks=2)

    result = workbench("uninstall")

    assert result.exit_code == 2
    assert f"This deletes 1 cluster (lab), and {home} with all runs" in result.stdout
    assert "Not confirmed, so nothing was deleted" in result.stderr
    assert store.cluster_wish("lab").up
    assert profile.exists()


def test_without_clusters_the_folders_go_at_once(workbench, store, home, profile):
    first, again = workbench("uninstall", "--yes"), workbench("uninstall", "--yes")

    assert (first.exit_code, again.exit_code) == (0, 0)
    assert "This deletes no cluster, and " in first.stdout
    assert again.stdout.startswith("Nothing of workbench is left here but the package")
    assert not home.exists()
    assert not profile.exists()


def test_a_folder_that_cannot_be_removed_is_named(workbench, store, home, monkeypatch):
    def refuse(folder):
        raise PermissionError(13, "Permission denied", str(folder))

    monkeypatch.setattr(shutil, "rmtree", refuse)

    result = workbench("uninstall", "--yes")

    assert result.exit_code == 1
    assert f"{home} cannot be removed (Permission denied); correct its" in result.stderr


def test_a_file_that_another_process_removes_meanwhile_stops_nothing(
    workbench, store, home, monkeypatch
):
    remove = shutil.rmtree

    def remove_late(folder):
        monkeypatch.setattr(shutil, "rmtree", remove)
        raise FileNotFoundError(2, "No such file or directory", "store.sqlite3-wal")

    monkeypatch.setattr(shutil, "rmtree", remove_late)

    assert workbench("uninstall", "--yes").exit_code == 0
    assert not home.exists()
