"""A training in a run is saved without a change to its code; one rank, in this process."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator

import numpy as np
import pytest

import workbench.compat
from workbench.core.run.rank_protocol import SnapshotSaved, TrainingResumed
from workbench.engine.run_context import RunContext, set_current
from workbench.engine.snapshot.run_snapshots import RunSnapshots
from workbench.engine.snapshot.state import SavedState
from workbench.engine.snapshot.writer import SnapshotWriter
from workbench.errors import StateError
from workbench.frameworks.chainer.framework import ChainerFramework

chainer = pytest.importorskip("chainer")
from chainer import training  # noqa: E402  # after the compat layer has seen it
from chainer.training import extensions  # noqa: E402  # likewise

from workbench.engine.snapshot import saved_training  # noqa: E402  # likewise

assert workbench.compat

MEMORY_SECONDS = 0.6


@pytest.fixture(autouse=True)
def often(monkeypatch) -> None:
    ChainerFramework().install()
    monkeypatch.setattr(saved_training, "interval", lambda *_: 3)


@pytest.fixture
def start(log, tmp_path) -> Iterator[Callable[..., RunContext]]:
    """Begin a run, or another attempt of it."""

    def start(attempt: int = 1, folder: str = "", *, insists: bool = False) -> RunContext:
        snapshots = RunSnapshots(
            log,
            folder or str(tmp_path / "snapshots"),
            run=log.run,
            attempt=attempt,
            generation=1,
            resumes=attempt > 1,
            insists=insists,
        )
        run = RunContext(log, snapshots=snapshots)
        set_current(run)
        return run

    yield start
    set_current(None)


@pytest.fixture
def trainer(tmp_path) -> Callable[..., training.Trainer]:
    """Make a trainer with extensions that have states."""

    def make(iterations: int = 10, *more: Callable[..., None]) -> training.Trainer:
        numbers = np.random.RandomState(3)
        inputs = numbers.rand(40, 4).astype(np.float32)
        labels = (inputs.sum(axis=1) > 2).astype(np.int32)
        model = chainer.links.Classifier(chainer.links.Linear(4, 2))
        optimizer = chainer.optimizers.Adam().setup(model)
        data = chainer.datasets.TupleDataset(inputs, labels)
        iterator = chainer.iterators.SerialIterator(data, 10)
        updater = training.StandardUpdater(iterator, optimizer)
        one = training.Trainer(updater, (iterations, "iteration"), out=str(tmp_path / "result"))
        one.extend(extensions.LogReport(trigger=(2, "iteration")))
        one.extend(extensions.ExponentialShift("alpha", 0.9), trigger=(1, "iteration"))
        for extension in more:
            one.extend(extension, trigger=(1, "iteration"))
        return one

    return make


def weights_of(trainer) -> np.ndarray:
    return trainer.updater.get_optimizer("main").target.predictor.W.array


def saved(taken) -> dict[int, SnapshotSaved]:
    """Return the reported snapshots by iteration."""
    events = [one.event for one in taken().events]
    return {one.iteration: one for one in events if isinstance(one, SnapshotSaved)}


def settled(trainer) -> None:
    """Let each snapshot be complete before the next."""
    from workbench.engine.run_context import current

    current().snapshots.writer.wait()


def test_it_is_stored_that_a_training_has_begun_before_its_first_step(trainer, start, log) -> None:
    """A rank may be killed in that step, before its channel sends anything."""
    start()
    one, stored = trainer(1), list[bool]()
    update = one.updater.update

    def look_and_update() -> None:
        stored.append(log.path.exists() and b"TrainingBegun" in log.path.read_bytes())
        update()

    one.updater.update = look_and_update
    one.run()

    assert stored == [True]


def test_chainer_reads_a_snapshot_without_us(trainer, start, tmp_path) -> None:
    run, saved = start(), trainer()
    saved.run()
    run.snapshots.close()
    path = tmp_path / "snapshots" / "attempt-1-training-1-iteration-10-final" / "trainer.npz"

    fresh = trainer()
    chainer.serializers.load_npz(str(path), fresh)

    np.testing.assert_array_equal(weights_of(fresh), weights_of(saved))
    assert fresh.updater.iteration == 10
    assert fresh.updater.get_optimizer("main").t == 10
    assert len(fresh.get_extension("LogReport").log) == 5


def test_a_snapshot_is_reported_when_it_is_complete(trainer, start, taken, tmp_path) -> None:
    held, complete = threading.Event(), []
    run = start()
    write = run.snapshots.folder.write

    def slowly(manifest, contents, **options):
        held.wait(30)
        complete.append(write(manifest, contents, **options))
        return complete[-1]

    run.snapshots.folder.write = slowly
    early = {}

    def look(trainer) -> None:
        if trainer.updater.iteration == 9:
            early.update(saved(taken))
            held.set()

    trainer(10, look).run()
    run.snapshots.close()

    assert early == {}
    # The one at iteration 8 was due while that of iteration 5 was still being written.
    assert [one.iteration for one in complete] == [5, 10]
    assert [*saved(taken)] == [5, 10]


def test_what_is_reported_is_the_stall_and_the_size(trainer, start, taken) -> None:
    run = start()
    trainer(10, settled).run()
    run.snapshots.close()
    found = saved(taken)

    assert found.keys() == {5, 8, 10}
    assert all(0 < one.seconds < 5 for one in found.values())
    for one in run.snapshots.folder.manifests():
        assert found[one.iteration].nbytes == sum(file.nbytes for file in one.files)


def test_the_wait_for_the_first_memory_does_not_delay_later_snapshots(
    trainer, start, taken, monkeypatch
) -> None:
    costs = list[float]()
    monkeypatch.setattr(saved_training, "interval", lambda cost, *_: costs.append(cost) or 3)
    monkeypatch.setattr(SnapshotWriter, "_allocate", slowly(SnapshotWriter._allocate))

    run = start()
    trainer(10, settled).run()
    run.snapshots.close()

    assert saved(taken)[5].seconds > MEMORY_SECONDS / 2
    assert max(costs) < MEMORY_SECONDS / 2


def test_the_user_may_choose_the_longest_time_between_snapshots(
    trainer, start, monkeypatch
) -> None:
    chosen = list[float]()
    monkeypatch.setattr(saved_training, "interval", lambda *given: chosen.append(given[-1]) or 3)
    monkeypatch.setenv("WORKBENCH_SNAPSHOT_EVERY", "600.0")

    run = start()
    trainer(10).run()
    run.snapshots.close()

    assert {*chosen} == {600.0}


def slowly(allocate: Callable[..., None]) -> Callable[..., None]:
    """Return what allocates memory as slowly as a virtual machine does for a large model."""

    def slow(writer: SnapshotWriter, *arguments: object) -> None:
        time.sleep(MEMORY_SECONDS)
        allocate(writer, *arguments)

    return slow


def test_training_is_the_same_with_and_without_snapshots(trainer, start) -> None:
    np.random.seed(5)
    run, saved = start(), trainer()
    saved.run()
    run.snapshots.close()

    set_current(None)
    np.random.seed(5)
    plain = trainer()
    plain.run()

    np.testing.assert_array_equal(weights_of(saved), weights_of(plain))


def test_an_extension_that_cannot_be_saved_costs_the_snapshots_and_not_the_training(
    trainer, start, taken, capsys
) -> None:
    class Stubborn(training.Extension):
        trigger = (1, "iteration")

        def __call__(self, trainer) -> None: ...

        def serialize(self, serializer) -> None:
            raise RuntimeError("not today")

    run = start()
    one = trainer()
    one.extend(Stubborn())
    one.run()
    run.snapshots.close()

    assert one.updater.iteration == 10
    assert saved(taken) == {}
    assert capsys.readouterr().err.count("not today") == 1


def test_a_folder_that_cannot_be_made_is_reported_once(trainer, start, taken, tmp_path) -> None:
    (tmp_path / "file").write_text("")
    run = start(folder=str(tmp_path / "file" / "snapshots"))

    trainer(10, settled).run()
    run.snapshots.close()

    said = [chunk.text for chunk in taken().chunks if chunk.stream == "stderr"]
    assert len(said) == 1
    assert "could not be written" in said[0]


def test_an_extension_that_the_code_has_now_begins_as_new(trainer, start) -> None:
    run = start()
    trainer(6).run()
    run.snapshots.close()

    run, second = start(2), trainer(9)
    second.extend(extensions.LogReport(trigger=(1, "iteration")), name="another")
    second.run()
    run.snapshots.close()

    assert [one["iteration"] for one in second.get_extension("another").log] == [7, 8, 9]
    assert [one["iteration"] for one in second.get_extension("LogReport").log] == [2, 4, 6, 8]


@pytest.mark.parametrize(("rate", "expected"), [(0.5, 0.25), (0.125, 0.125)])
def test_a_rate_that_the_code_sets_otherwise_now_is_the_new_one(start, rate, expected) -> None:
    def make(iterations: int, lr: float) -> training.Trainer:
        model = chainer.links.Linear(4, 1)
        optimizer = chainer.optimizers.SGD(lr).setup(model)
        data = np.ones((8, 4), np.float32)
        iterator = chainer.iterators.SerialIterator(data, 4)
        updater = training.StandardUpdater(
            iterator, optimizer, loss_func=lambda x: chainer.functions.sum(model(x))
        )
        return training.Trainer(updater, (iterations, "iteration"))

    def halve(trainer) -> None:
        if trainer.updater.iteration == 2:
            trainer.updater.get_optimizer("main").lr /= 2

    run, first = start(), make(6, 0.5)
    first.extend(halve, trigger=(1, "iteration"))
    first.run()
    run.snapshots.close()
    start(2)
    second = make(9, rate)
    second.run()

    assert second.updater.get_optimizer("main").lr == expected


def test_a_training_whose_snapshots_are_all_damaged_is_done_again_from_its_beginning(
    trainer, start, taken, tmp_path, capsys
) -> None:
    run = start()
    trainer(10, settled).run()
    run.snapshots.close()
    taken()
    for path in (tmp_path / "snapshots").glob("attempt-*/trainer.npz"):
        path.write_bytes(b"")

    start(attempt=2)
    again = trainer(3)
    again.run()

    assert again.updater.iteration == 3
    # The points of the first attempt are set aside by that.
    assert taken().event(TrainingResumed) == TrainingResumed(0, 1)
    assert "none of its snapshots can be read" in capsys.readouterr().err


def test_a_training_that_its_user_resumes_is_not_done_again_from_its_beginning(
    trainer, start, tmp_path
) -> None:
    run = start()
    trainer(10, settled).run()
    run.snapshots.close()
    for path in (tmp_path / "snapshots").glob("attempt-*/trainer.npz"):
        path.write_bytes(b"")

    start(attempt=2, insists=True)

    with pytest.raises(StateError, match="None of the snapshots of this run can be read; start"):
        trainer(3).run()


def test_a_snapshot_of_an_older_version_is_refused_with_the_remedy(
    trainer, start, monkeypatch
) -> None:
    run, capture = start(), SavedState.capture

    def capture_as_before(state, spare):
        common, own = capture(state, spare)
        return common, {"step": own.pop("iteration"), **own}

    monkeypatch.setattr(SavedState, "capture", capture_as_before)
    trainer(3).run()
    run.snapshots.close()

    start(attempt=2)

    with pytest.raises(StateError, match=r"iteration 3 was saved by an older .* as a new run, or"):
        trainer(5).run()


def test_a_run_without_snapshots_writes_none(trainer, current_run, tmp_path) -> None:
    trainer().run()

    assert not (tmp_path / "snapshots").exists()
