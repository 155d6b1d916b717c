"""Worlds on several hosts: what starts them, and their record for the next supervisor."""

from __future__ import annotations

import sys

import pytest

from workbench.cloud.rented import userdata
from workbench.cluster.mpi_installation import Mpi, MpiKind
from workbench.cluster.multihost import (
    MultihostStart,
    WorldRecord,
    launch_of,
    read_records,
    write_records,
)
from workbench.cluster.remote_hosts import Login
from workbench.core.world.world import Host, World

WORLD = World((Host("10.0.0.1", 1, "me", 2222), Host("10.0.0.2", 2)), 3)


@pytest.mark.parametrize(
    "prefix", ["/usr", "/usr/local", "/opt/conda", "/home/you/.pyenv/versions/3"]
)
@pytest.mark.parametrize("kind", MpiKind)
def test_ranks_and_mpiexec_of_rented_nodes_are_of_the_folder_there(prefix, kind):
    start = MultihostStart(
        Mpi(kind, f"{prefix}/bin/mpiexec", "5.0.11"),
        World((Host("10.0.0.4", 1), Host("10.0.0.5", 1)), 2),
        generation=1,
        login=Login(),
        folder=".workbench/one/g1",
        numeric=("10.0.0.4", "10.0.0.5"),
        patience=10.0,
        python=userdata.PYTHON,
    )

    command = launch_of(start, distinct=True).command

    assert command[0] == "/opt/workbench/env/bin/mpiexec"
    assert userdata.PYTHON in command
    assert not [word for word in command if prefix in word or sys.prefix in word]


def test_hosts_of_ones_own_have_it_where_it_is_here():
    start = MultihostStart(
        Mpi(MpiKind.OPENMPI, "/usr/bin/mpiexec", "5.0.11"),
        World((Host("10.0.0.4", 1),), 1),
        generation=1,
        login=Login(),
        folder=".workbench/one/g1",
        numeric=("10.0.0.4",),
        patience=10.0,
    )

    command = launch_of(start, distinct=True).command

    assert command[0] == "/usr/bin/mpiexec"
    assert sys.executable in command


@pytest.mark.parametrize("kind", MpiKind)
def test_mpiexec_is_not_given_the_keys_of_the_controller(kind):
    start = MultihostStart(
        Mpi(kind, "/usr/bin/mpiexec", "5.0.11"),
        WORLD,
        generation=1,
        login=Login(),
        folder=".workbench/one/g1",
        numeric=("10.0.0.1", "10.0.0.2"),
        patience=10.0,
    )

    launched = launch_of(start, distinct=True)

    given = dict(launched.environment)
    assert "IPP_CONNECTION_INFO" not in given
    assert given["WORKBENCH_CONNECTION"] == ".workbench/one/g1-connection.json"


def test_a_successor_reads_what_was_written_down(tmp_path) -> None:
    records = [
        WorldRecord(1, WORLD, ".workbench/a/g1", 42),
        WorldRecord(2, WORLD, ".workbench/a/g2"),
    ]

    write_records(tmp_path / "worlds.json", records)

    assert read_records(tmp_path / "worlds.json") == records


def test_without_worlds_there_is_no_file(tmp_path) -> None:
    write_records(tmp_path / "worlds.json", [WorldRecord(1, WORLD, "f")])

    write_records(tmp_path / "worlds.json", [])

    assert list(tmp_path.iterdir()) == []
    assert read_records(tmp_path / "worlds.json") == []


def test_a_file_that_cannot_be_read_holds_nothing(tmp_path) -> None:
    (tmp_path / "worlds.json").write_text("[{")

    assert read_records(tmp_path / "worlds.json") == []
