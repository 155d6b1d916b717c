from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from workbench.core.run.model import Run, RunKind, RunWish
from workbench.core.run.rank_protocol import Batch, Chunk, Sample
from workbench.store import Store


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("WORKBENCH_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.fixture
def store(home: Path) -> Iterator[Store]:
    with Store() as store:
        yield store


@pytest.fixture
def supervisor(home: Path) -> Iterator[Store]:
    """Give the connection by which someone else writes facts."""
    with Store() as store:
        yield store


@pytest.fixture
def queue(store: Store) -> Callable[..., Run]:
    """Queue a run; no supervisor is started for it."""

    def wish(name: str, **options: Any) -> Run:
        run = f"261121-003229-{name[:4]:a<4}"
        made = RunWish(run, name, RunKind.CELL, "pass", created=time.time(), **options)
        return store.run(store.wish_run(made).id)

    return wish


@pytest.fixture
def report(supervisor: Store) -> Callable[..., None]:
    """Have a rank report."""
    sequences: dict[tuple[str, int], int] = {}

    def send(run: Run, rank: int, text: str = "", **values: list[float]) -> None:
        sequence = sequences[run.id, rank] = sequences.get((run.id, rank), 0) + 1
        samples = tuple(
            Sample(name.replace("__", "/"), iteration, 0.0, value)
            for name, series in values.items()
            for iteration, value in enumerate(series, 1)
        )
        chunks = (Chunk("stdout", 0.0, text),) if text else ()
        supervisor.reports.add_batches([Batch(run.id, rank, sequence, samples, chunks)])

    return send
