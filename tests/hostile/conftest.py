"""A kernel with a cluster of real ranks, renewed after a cell that does not end."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.notebook.kernel import Answer, Notebook, processes_of
from tests.waiting import until
from workbench.core.cluster.model import ClusterState
from workbench.core.run.model import Run
from workbench.requests.cluster import ask_down
from workbench.store import Store

FRESH_SECONDS = 40.0


class Place:
    """One kernel and one cluster, for as long as no cell hangs in it.

    Args:
        home: The place's ``WORKBENCH_HOME``.
        ranks: The world size of its cells.
    """

    def __init__(self, home: Path, ranks: int) -> None:
        self.home = home
        self.ranks = ranks
        self._notebook: Notebook | None = None
        self._runs = 0

    @property
    def notebook(self) -> Notebook:
        """The kernel, with a cluster that is ready."""
        if self._notebook is None:
            self._notebook = Notebook()
            self.train("pass", 60)
            self._notebook.run("%dist_resize " + f"{self.ranks} --oversubscribe")
            self.train("pass", 60)
        return self._notebook

    def train(self, source: str, seconds: float) -> Answer:
        """Run a training cell; one that takes longer fails the test, and the kernel with it."""
        notebook = self._notebook or self.notebook
        self._runs += 1
        try:
            return notebook.run(f"%%dist_train --name {self.name}\n{source}", timeout=seconds)
        except TimeoutError:
            self.close()
            pytest.fail(f"the cell had not ended after {seconds:g} s")

    @property
    def name(self) -> str:
        """The name of the latest run."""
        return f"cell-{self._runs}"

    def run(self) -> Run:
        """Return the latest run, as the store has it."""
        with Store() as store:
            return store.run(self.name)

    def logs(self) -> str:
        """Return what ``workbench logs`` prints of the latest run."""
        command = [sys.executable, "-m", "workbench.cli", "logs", self.name]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    @contextlib.contextmanager
    def fresh_after_a_failure(self) -> Iterator[None]:
        """Spare the next test the ranks on which this one failed."""
        try:
            yield
        except AssertionError:
            self.close()
            raise

    def close(self) -> None:
        """End the kernel and the cluster; nothing of them is left."""
        if self._notebook is not None:
            self._notebook.close()
            self._notebook = None
        with Store() as store:
            ask_down(store)
            until(lambda: store.cluster_fact("default").state is ClusterState.DOWN, seconds=60)
        until(lambda: not processes_of(str(self.home)), seconds=20)


@pytest.fixture(
    scope="module",
    params=[pytest.param(1, marks=pytest.mark.weekly, id="1-rank"), pytest.param(2, id="2-ranks")],
)
def place(request: pytest.FixtureRequest, tmp_path_factory) -> Iterator[Place]:
    """Give a kernel with a cluster of this many ranks, for all tests of a module."""
    with pytest.MonkeyPatch.context() as patch:
        home = tmp_path_factory.mktemp("home")
        patch.setenv("WORKBENCH_HOME", str(home))
        place = Place(home, request.param)
        yield place
        place.close()
