"""A store on a disk that machines share is reserved for the first machine that opens it."""

from __future__ import annotations

import os
import stat
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from workbench.core.node.disks import Mount
from workbench.errors import MachineError, StoreError, StoreTaken
from workbench.store import Store, disk
from workbench.store.claim import (
    CLAIM_NAME,
    SILENT_SECONDS,
    ClaimingMachine,
    Tenure,
    claim,
    this_machine,
)

NFS = Mount("/home", "nfs4")
LOGIN = ClaimingMachine("login1", "a1", "boot-1")
COMPUTE = ClaimingMachine("compute7", "b2", "boot-2")


def test_the_first_machine_has_it_and_keeps_it(tmp_path) -> None:
    claim(tmp_path, NFS, LOGIN)
    claim(tmp_path, NFS, LOGIN)

    assert [path.name for path in tmp_path.iterdir()] == [CLAIM_NAME]
    assert stat.S_IMODE((tmp_path / CLAIM_NAME).stat().st_mode) == 0o600


def test_a_second_machine_is_refused_with_the_name_of_the_first(tmp_path) -> None:
    claim(tmp_path, NFS, LOGIN)

    with pytest.raises(MachineError) as refusal:
        claim(tmp_path, NFS, COMPUTE)

    assert str(refusal.value) == (
        f"The data directory {tmp_path} is on a disk that machines share (nfs4), and login1 used "
        "it 0 s ago: two machines would destroy the store; delete the clusters and close the "
        "notebooks of login1, after which it is free in 10 minutes, or set WORKBENCH_HOME to a "
        "folder of compute7 itself."
    )
    assert [path.name for path in tmp_path.iterdir()] == [CLAIM_NAME]


def silent(folder: Path, seconds: float) -> None:
    """Let the owner of the claim have been silent for so long."""
    path = folder / CLAIM_NAME
    os.utime(path, (path.stat().st_mtime - seconds,) * 2)


@pytest.mark.parametrize("text", ["", "as written"])
def test_a_machine_that_was_silent_for_long_loses_it_to_the_next(tmp_path, text) -> None:
    claim(tmp_path, NFS, LOGIN)
    if not text:
        (tmp_path / CLAIM_NAME).write_text(text)
    silent(tmp_path, SILENT_SECONDS + 5)

    claim(tmp_path, NFS, COMPUTE)

    with pytest.raises(StoreTaken, match="compute7 used it 0 s ago"):
        claim(tmp_path, NFS, LOGIN)
    assert [path.name for path in tmp_path.iterdir()] == [CLAIM_NAME]


def test_a_machine_that_uses_it_keeps_it(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("workbench.store.claim.RENEW_SECONDS", 0.0)
    claim(tmp_path, NFS, LOGIN)
    tenure = Tenure(tmp_path, NFS, LOGIN)
    silent(tmp_path, SILENT_SECONDS - 5)
    with pytest.raises(StoreTaken, match="login1 used it 595 s ago"):
        claim(tmp_path, NFS, COMPUTE)
    silent(tmp_path, 10)

    tenure.keep()

    with pytest.raises(StoreTaken, match="login1 used it 0 s ago"):
        claim(tmp_path, NFS, COMPUTE)


def test_a_machine_that_lost_it_hears_so_before_it_writes(shared, monkeypatch) -> None:
    monkeypatch.setattr("workbench.store.claim.RENEW_SECONDS", 0.0)
    with Store(shared / "store.sqlite3") as store:
        store.wish_cluster("lab", up=True, ranks=2)
        silent(shared, SILENT_SECONDS + 5)
        claim(shared, NFS, COMPUTE)

        with pytest.raises(StoreTaken, match="compute7 used it"):
            store.wish_cluster("lab", up=True, ranks=3)


def test_of_machines_that_take_it_over_at_once_one_has_it(tmp_path) -> None:
    claim(tmp_path, NFS, LOGIN)
    silent(tmp_path, SILENT_SECONDS + 5)

    assert len(refused_of(8, tmp_path)) == 7
    assert [path.name for path in tmp_path.iterdir()] == [CLAIM_NAME]


def test_a_machine_that_was_started_again_is_known(tmp_path) -> None:
    claim(tmp_path, NFS, LOGIN)
    again = replace(LOGIN, boot="boot-9")

    claim(tmp_path, NFS, again)

    claim(tmp_path, NFS, replace(again, id="", name="a-container"))  # of the same kernel


@pytest.mark.parametrize("changed", [{"name": "login2"}, {"id": "copy"}, {"id": ""}])
def test_a_copy_of_a_machine_is_another_one(tmp_path, changed) -> None:
    claim(tmp_path, NFS, LOGIN)

    with pytest.raises(MachineError, match="login1 used it"):
        claim(tmp_path, NFS, replace(LOGIN, boot="boot-3", **changed))


def refused_of(number: int, folder: Path) -> list[str]:
    """Return the errors of machines that claim a folder at once."""
    refused = []
    together = threading.Barrier(number)

    def come(number: int) -> None:
        together.wait()
        try:
            claim(folder, NFS, ClaimingMachine(f"m{number}", f"id{number}", f"boot{number}"))
        except MachineError as error:
            refused.append(str(error))

    threads = [threading.Thread(target=come, args=(number,)) for number in range(number)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return refused


def test_of_machines_that_come_at_once_one_has_it(tmp_path) -> None:
    refused = refused_of(8, tmp_path)

    assert len(refused) == 7
    assert len({error.split(" used it")[0] for error in refused}) == 1


@pytest.mark.parametrize("text", ["", "{", "[]", '{"name": 3}', "null"])
def test_a_claim_that_cannot_be_read_lets_no_one_in(tmp_path, text) -> None:
    (tmp_path / CLAIM_NAME).write_text(text)

    with pytest.raises(MachineError, match="unreadable used it"):
        claim(tmp_path, NFS, LOGIN)


@pytest.fixture
def shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A list of mounts in which everything lies on NFS."""
    mounts = tmp_path / "mountinfo"
    mounts.write_text("1 0 0:1 / / rw - nfs4 server:/ rw\n")
    monkeypatch.setattr(disk, "MOUNTS", mounts)
    return tmp_path


def test_a_store_on_a_shared_disk_has_a_journal_that_needs_no_shared_memory(shared) -> None:
    with Store(shared / "store.sqlite3") as store:
        store.wish_cluster("lab", up=True, ranks=2)
        again = Store(store.path)
        mode = store.one("PRAGMA journal_mode")
        again.close()

    assert mode == ("delete",)
    assert not [*shared.glob("*-wal"), *shared.glob("*-shm")]


def test_a_store_that_is_moved_while_it_is_open_is_reported(shared) -> None:
    with Store(shared / "store.sqlite3") as store:
        store.wish_cluster("lab", up=True, ranks=2)
        store.path.rename(shared / "elsewhere")

        with pytest.raises(StoreError, match="was moved or deleted while it was in use; put it"):
            store.wish_cluster("lab", up=True, ranks=3)


def test_a_store_that_another_machine_uses_is_not_even_opened(shared) -> None:
    claim(shared, NFS, COMPUTE)

    with pytest.raises(MachineError, match="compute7 used it"):
        Store(shared / "store.sqlite3")

    assert not (shared / "store.sqlite3").exists()


def test_a_store_moves_to_another_machine_and_back(shared, monkeypatch) -> None:
    """As where the next login node, or the next job, opens the store in a shared home."""
    path = shared / "store.sqlite3"

    def open_on(machine: ClaimingMachine) -> Store:
        monkeypatch.setattr("workbench.store.database.this_machine", lambda: machine)
        return Store(path)

    with open_on(LOGIN) as store:
        store.wish_cluster("lab", up=True, ranks=2)
    with pytest.raises(StoreTaken, match="login1 used it"):
        open_on(COMPUTE)
    silent(shared, SILENT_SECONDS + 5)
    with open_on(COMPUTE) as store:
        store.wish_cluster("lab", up=True, ranks=3)
    with pytest.raises(StoreTaken, match="compute7 used it"):
        open_on(LOGIN)
    silent(shared, SILENT_SECONDS + 5)

    with open_on(LOGIN) as store:
        assert store.cluster_wish("lab").ranks == 3


def test_a_store_of_this_machine_alone_needs_no_claim(store) -> None:
    assert not (store.path.parent / CLAIM_NAME).exists()
    assert this_machine().name
