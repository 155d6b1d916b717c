"""If a supervisor ends before its start is complete, the reason is stored for it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.waiting import until
from workbench.core.cluster.model import ClusterFact, ClusterState
from workbench.requests.cluster import ask_cluster
from workbench.requests.supervisor import LOG_NAME
from workbench.store import Store
from workbench.store.paths import cluster_directory

NAME = "unborn"


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    """Give a store, and have the folder ``broken`` go before what is installed."""
    monkeypatch.setenv("WORKBENCH_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with Store() as store:
        yield store


def failed(store: Store) -> ClusterFact:
    ask_cluster(store, 2, cluster=NAME, oversubscribe=True)
    until(lambda: store.cluster_fact(NAME).state is ClusterState.FAILED)
    return store.cluster_fact(NAME)


@pytest.mark.parametrize(
    ("source", "how"),
    [
        ("raise ImportError('half of an upgrade')", "ImportError: half of an upgrade"),
        ("import os; os.kill(os.getpid(), 9)", "killed by SIGKILL"),
        ("import os; os._exit(7)", "exit status 7"),
    ],
    ids=["import", "killed", "silent"],
)
def test_the_panel_gets_the_reason_and_the_log(store: Store, tmp_path, source, how) -> None:
    (tmp_path / "ipyparallel.py").write_text(source)

    message = failed(store).message

    log = cluster_directory(NAME) / LOG_NAME
    assert message == f"The supervisor ended as it started ({how}); see {log}."


def test_a_supervisor_that_failed_tries_again_when_asked_again(store: Store, tmp_path) -> None:
    (tmp_path / "ipyparallel.py").write_text("raise ImportError('first')")
    failed(store)
    (tmp_path / "ipyparallel.py").write_text("raise ImportError('second')")

    ask_cluster(store, 2, cluster=NAME, oversubscribe=True)

    until(lambda: "second" in store.cluster_fact(NAME).message)
