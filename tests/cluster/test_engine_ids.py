"""Engines that get the id of a dead one are asked for their generation all the same."""

from __future__ import annotations

import json
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from workbench.cluster.mpi_cluster import MpiCluster
from workbench.cluster.mpi_world import MpiWorld


class Answer:
    """What engines answer; None if they never do."""

    def __init__(self, values: list[int] | None) -> None:
        self._values = values

    def ready(self) -> bool:
        return self._values is not None

    def get(self) -> list[bytes]:
        return [json.dumps(self._values).encode()]


class Client:
    """Has one engine at a time."""

    def __init__(self) -> None:
        self.names: dict[int, str] = {}
        self.answer: list[int] | None = None

    def engines(self) -> set[tuple[int, str]]:
        return {*self.names.items()}

    @property
    def ids(self) -> list[int]:
        return [*self.names]

    def direct_view(self, ids: list[int]) -> Client:
        return self

    def apply_async(self, *call: Any) -> Answer:
        return Answer(self.answer)


def test_an_engine_is_asked_though_a_dead_one_with_its_id_was_and_never_answers(
    tmp_path: Path,
) -> None:
    cluster, client = MpiCluster(tmp_path), Client()
    world = cluster._worlds[7] = MpiWorld(7, 1, Future())
    cluster._client = client
    client.names = {0: "dead"}
    cluster._assign_engines()

    client.names, client.answer = {0: "new"}, [7, 100, 101]
    cluster._assign_engines()
    cluster._router.close()

    assert world.engines == {0}
    assert world.launched == {0: 101}
