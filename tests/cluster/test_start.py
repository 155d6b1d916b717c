"""A world on nodes is started by what the nodes have, wherever that is here."""

from __future__ import annotations

import sys

import pytest

from workbench.cluster.mpi import Mpi, MpiKind
from workbench.cluster.multihost_world import Start, launch_of
from workbench.cluster.remote_hosts import Login
from workbench.core.node import environment_paths
from workbench.core.world.world import Host, World


@pytest.mark.parametrize(
    "prefix", ["/usr", "/usr/local", "/opt/conda", "/home/you/.pyenv/versions/3"]
)
@pytest.mark.parametrize("kind", MpiKind)
def test_ranks_and_mpiexec_of_rented_nodes_are_of_the_folder_there(prefix, kind):
    start = Start(
        Mpi(kind, f"{prefix}/bin/mpiexec", "5.0.11"),
        World((Host("10.0.0.4", 1), Host("10.0.0.5", 1)), 2),
        generation=1,
        connection="{}",
        login=Login(),
        folder=".workbench/one/g1",
        numeric=("10.0.0.4", "10.0.0.5"),
        patience=10.0,
        python=environment_paths.PYTHON,
    )

    command = launch_of(start, distinct=True).command

    assert command[0] == "/opt/workbench/env/bin/mpiexec"
    assert environment_paths.PYTHON in command
    assert not [word for word in command if prefix in word or sys.prefix in word]


def test_hosts_of_ones_own_have_it_where_it_is_here():
    start = Start(
        Mpi(MpiKind.OPENMPI, "/usr/bin/mpiexec", "5.0.11"),
        World((Host("10.0.0.4", 1),), 1),
        generation=1,
        connection="{}",
        login=Login(),
        folder=".workbench/one/g1",
        numeric=("10.0.0.4",),
        patience=10.0,
    )

    command = launch_of(start, distinct=True).command

    assert command[0] == "/usr/bin/mpiexec"
    assert sys.executable in command
