"""The learning rate rises to that of the batch of all ranks, also in a resumed training."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

import workbench
import workbench.compat
from workbench.errors import InputError

chainer = pytest.importorskip("chainer")
FOUR = SimpleNamespace(size=4)


def trainer(tmp_path, optimizer=None, steps=10):
    data = chainer.datasets.TupleDataset(np.ones((40, 2), "f"), np.zeros(40, "i"))
    model = chainer.links.Classifier(chainer.links.Linear(2, 2))
    optimizer = (optimizer or chainer.optimizers.SGD(0.1)).setup(model)
    iterator = chainer.iterators.SerialIterator(data, 10)
    updater = chainer.training.StandardUpdater(iterator, optimizer)
    return chainer.training.Trainer(updater, (steps, "iteration"), out=str(tmp_path))


def rate(one, name="lr") -> float:
    return getattr(one.updater.get_optimizer("main"), name)


def test_the_first_step_has_the_rate_of_one_rank(tmp_path) -> None:
    one, seen = trainer(tmp_path, steps=1), []
    update = one.updater.update
    one.updater.update = lambda: (seen.append(rate(one)), update())

    one.extend(workbench.LinearScaling(FOUR))
    one.run()

    assert seen == [0.1]
    assert 0.1 < rate(one) < 0.4


def test_the_rate_is_that_of_the_whole_batch_in_the_end(tmp_path) -> None:
    one = trainer(tmp_path, steps=6)

    one.extend(workbench.LinearScaling(FOUR, iterations=5))
    one.run()

    assert rate(one) == pytest.approx(0.4)


def test_a_rate_that_is_right_for_another_batch_is_scaled_from_there(tmp_path) -> None:
    one = trainer(tmp_path, steps=3)

    one.extend(workbench.LinearScaling(FOUR, batch=20, iterations=2))
    one.run()

    assert rate(one) == pytest.approx(0.2)


def test_adam_has_an_alpha(tmp_path) -> None:
    one = trainer(tmp_path, chainer.optimizers.Adam(0.001), steps=3)

    one.extend(workbench.LinearScaling(FOUR, iterations=2))
    one.run()

    assert rate(one, "alpha") == pytest.approx(0.004)


def test_what_rmsprop_calls_alpha_is_left_alone(tmp_path) -> None:
    one = trainer(tmp_path, chainer.optimizers.RMSprop(0.01), steps=3)

    one.extend(workbench.LinearScaling(FOUR, iterations=2))
    one.run()

    assert rate(one) == pytest.approx(0.04)
    assert rate(one, "alpha") == 0.99


def test_after_the_rise_the_rate_is_left_to_others(tmp_path) -> None:
    one = trainer(tmp_path, steps=6)

    one.extend(workbench.LinearScaling(FOUR, iterations=2))
    one.extend(chainer.training.extensions.ExponentialShift("lr", 0.5), trigger=(4, "iteration"))
    one.run()

    assert rate(one) < 0.4


def test_a_training_that_is_taken_up_again_continues_with_the_rise(tmp_path) -> None:
    first = trainer(tmp_path, steps=4)
    first.extend(workbench.LinearScaling(FOUR, iterations=8))
    first.run()
    chainer.serializers.save_npz(tmp_path / "snapshot.npz", first)

    again = trainer(tmp_path, steps=5)
    again.extend(workbench.LinearScaling(FOUR, iterations=8))
    chainer.serializers.load_npz(tmp_path / "snapshot.npz", again)
    again.run()

    assert rate(again) == pytest.approx(0.1 + 0.3 * 5 / 8)


def test_a_single_rank_keeps_its_rate(tmp_path) -> None:
    one = trainer(tmp_path, steps=3)

    one.extend(workbench.LinearScaling(SimpleNamespace(size=1)))
    one.run()

    assert rate(one) == pytest.approx(0.1)


@pytest.mark.parametrize(
    ("options", "said"),
    [({"batch": 0}, "batch of at least 1, not 0"), ({"epochs": -1.0}, "warm-up of 0 or more")],
)
def test_what_is_not_valid_is_refused(options, said) -> None:
    with pytest.raises(InputError, match=said):
        workbench.LinearScaling(FOUR, **options)


def test_an_optimizer_without_a_known_rate_is_named(tmp_path) -> None:
    one = trainer(tmp_path, chainer.optimizers.AdaDelta())
    one.extend(workbench.LinearScaling(FOUR))

    with pytest.raises(InputError, match="AdaDelta has neither lr nor alpha"):
        one.run()


def test_of_two_optimizers_each_is_scaled_that_is_named(tmp_path) -> None:
    one = trainer(tmp_path, steps=3)
    model = chainer.links.Classifier(chainer.links.Linear(2, 2))
    second = chainer.optimizers.SGD(0.3).setup(model)
    known = {"gen": one.updater.get_optimizer("main"), "dis": second}
    one.updater._optimizers = known | {"main": known["gen"]}
    one.updater.get_all_optimizers = lambda: known

    one.extend(workbench.LinearScaling(FOUR, iterations=2, optimizer=known["gen"]))
    one.extend(workbench.LinearScaling(FOUR, iterations=2, optimizer=second))
    one.run()

    assert (rate(one), second.lr) == (pytest.approx(0.4), pytest.approx(1.2))


def test_of_two_optimizers_none_is_chosen_silently(tmp_path) -> None:
    one = trainer(tmp_path)
    main = one.updater.get_optimizer("main")
    one.updater.get_all_optimizers = lambda: {"gen": main, "dis": main}
    one.extend(workbench.LinearScaling(FOUR))

    with pytest.raises(InputError, match="which optimizer it is to scale: 'gen' and 'dis'"):
        one.run()
