"""PyTorch's part of an elastic loop's state, in this process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import workbench
from workbench.engine.run_context import RunContext, set_current
from workbench.engine.snapshot import saved_training
from workbench.engine.snapshot.run_snapshots import RunSnapshots
from workbench.errors import InputError, StateError
from workbench.frameworks.torch.framework import TorchFramework

torch: Any = pytest.importorskip("torch")
pytestmark = pytest.mark.torch


@pytest.fixture
def start(log, tmp_path, monkeypatch) -> Iterator[Callable[..., RunContext]]:
    """Begin a run, or another attempt of it."""
    monkeypatch.setattr(saved_training, "interval", lambda *_: 3)
    TorchFramework().install()

    def start(attempt: int = 1) -> RunContext:
        folder = str(tmp_path / "snapshots")
        resumes = attempt > 1
        snapshots = RunSnapshots(
            log, folder, run=log.run, attempt=attempt, generation=1, resumes=resumes
        )
        run = RunContext(log, snapshots=snapshots)
        set_current(run)
        return run

    yield start
    set_current(None)


def make(units: int = 4) -> dict[str, Any]:
    torch.manual_seed(3)
    model = torch.nn.Sequential(
        torch.nn.Linear(2, units), torch.nn.BatchNorm1d(units), torch.nn.Linear(units, 1)
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    return {
        "model": model,
        "optimizer": optimizer,
        "scheduler": torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.5),
        "multi": torch.optim.lr_scheduler.MultiStepLR(optimizer, [3, 5]),
        "scaler": torch.amp.GradScaler("cpu", init_scale=4.0, growth_interval=3),
        "ema": torch.zeros(units, 2, dtype=torch.bfloat16),
        "generator": torch.Generator().manual_seed(5),
        "best": 0.0,
    }


def train(state: dict[str, Any], steps: int) -> list[float]:
    losses = []
    for _ in workbench.elastic(state, steps=steps):
        x = torch.rand(8, 2) + torch.rand(8, 2, generator=state["generator"])
        state["optimizer"].zero_grad()
        loss = (state["model"](x) - x.sum(1, keepdim=True)).square().mean()
        state["scaler"].scale(loss).backward()
        state["scaler"].step(state["optimizer"])
        state["scaler"].update()
        state["scheduler"].step()
        state["multi"].step()
        with torch.no_grad():
            state["ema"] += state["model"][0].weight
        state["best"] = loss.item()
        losses.append(loss.item())
    return losses


def final(tmp_path: Path, steps: int) -> Path:
    return tmp_path / "snapshots" / f"attempt-1-training-1-iteration-{steps}-final" / "state.pt"


def test_it_is_the_same_training(start) -> None:
    whole = make()
    losses = train(whole, 9)
    run = start()
    train(make(), 4)
    run.snapshots.close()
    start(2)
    second = make()

    assert train(second, 9) == losses[4:]
    assert second["ema"].equal(whole["ema"])
    for name in ("model", "optimizer", "scheduler", "multi", "scaler"):
        assert str(second[name].state_dict()) == str(whole[name].state_dict()), name


def test_the_iterations_of_the_curve_are_those_of_the_loop(start, taken) -> None:
    run = start()
    train(make(), 4)
    run.snapshots.close()
    run = start(2)
    taken()
    train(make(), 6)
    run.close()

    samples = taken().samples
    assert [s.iteration for s in samples if s.name == "loss"] == [5, 6]
    assert (run.boundaries.count, run.iteration) == (2, 6)


def test_torch_reads_a_snapshot_without_us(start, tmp_path) -> None:
    run, state = start(), make()
    train(state, 3)
    run.snapshots.close()

    saved = torch.load(final(tmp_path, 3), weights_only=True)
    fresh = make()
    for name in ("model", "optimizer", "scheduler", "multi", "scaler"):
        fresh[name].load_state_dict(saved[name])
        assert str(fresh[name].state_dict()) == str(state[name].state_dict()), name
    assert saved["ema"].equal(state["ema"])


def test_the_names_of_a_wrapped_module_are_its_own(start, tmp_path) -> None:
    run = start()
    model = torch.compile(torch.nn.Linear(2, 1), backend="eager")
    list(workbench.elastic({"model": torch.nn.DataParallel(model)}, steps=1))
    run.snapshots.close()

    assert [*torch.load(final(tmp_path, 1))["model"]] == ["weight", "bias"]


def test_a_snapshot_of_another_model_is_refused(start) -> None:
    run = start()
    train(make(), 3)
    run.snapshots.close()
    start(2)

    with pytest.raises(StateError, match=r"state\['model'\] is not the one of the snapshot"):
        train(make(5), 4)


@pytest.mark.parametrize(
    ("state", "sentence"),
    [
        (lambda s: {"optimizer": s["optimizer"]}, "updates parameters that are in no entry"),
        (lambda s: {"loader": torch.utils.data.DataLoader([1])}, "which does not say its place"),
        (lambda s: {"loss": s["model"].forward}, "which has neither state_dict nor serialize"),
        (lambda s: {"all": [torch.zeros(1)]}, "state['all'] is a list, which has neither"),
    ],
    ids=["optimizer alone", "loader", "method", "tensors in a list"],
)
def test_what_cannot_be_saved_is_refused(state, sentence) -> None:
    with pytest.raises(InputError) as caught:
        workbench.elastic(state(make()))

    assert sentence in str(caught.value)
