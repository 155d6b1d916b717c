"""Of the errors in Chainer's loop, those that follow from another rank's are not printed."""

from __future__ import annotations

import sys

import pytest

from workbench.frameworks.chainer.hook import without_echoes


class Fails:
    """A training whose first update raises; it has what ``Trainer.run`` needs of an updater."""

    def __init__(self, error: Exception) -> None:
        self.error = error
        self.iteration = 0

    def connect_trainer(self, trainer: object) -> None:
        pass

    def update(self) -> None:
        raise self.error

    def get_all_optimizers(self) -> dict[str, object]:
        return {}

    def finalize(self) -> None:
        pass


@pytest.mark.parametrize("error", [ConnectionError("revoked"), ValueError("mine")])
def test_only_an_echo_is_left_out(capsys, tmp_path, error) -> None:
    trainer_of = pytest.importorskip("chainer").training.Trainer
    trainer = trainer_of(Fails(error), (1, "iteration"), str(tmp_path))

    def is_echo(found: BaseException) -> bool:
        return isinstance(found, ConnectionError)

    with without_echoes(is_echo):
        print("before", file=sys.stderr)
        with pytest.raises(type(error)):
            trainer.run()
    print("after", file=sys.stderr)

    lines = capsys.readouterr().err.splitlines()
    assert (lines[0], lines[-1]) == ("before", "after")
    assert ("Exception in main training loop: mine" in lines) is isinstance(error, ValueError)
    assert len(lines) == 2 or isinstance(error, ValueError)
