"""Which frameworks there are, and what one does that has a defect."""

from __future__ import annotations

import sys
import types
from importlib.metadata import EntryPoint

import pytest

from workbench.engine.framework import (
    GROUP,
    Framework,
    explain_error,
    frameworks,
    install_frameworks,
    preload_later,
)
from workbench.errors import MachineError
from workbench.node.preloading import preload

HERE = "framework_of_a_test"


class Watching(Framework):
    followed = {"/libwatch.so": ("watch", "watch.slow")}  # noqa: RUF012  # likewise
    hooks = {"colorsys": f"{HERE}:watch"}  # noqa: RUF012  # as an author outside writes it


class Failing(Framework):
    def install(self) -> None:
        raise OSError("a folder lacks")


@pytest.fixture
def offered(monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    """Have the frameworks of this module in place of those that are installed."""
    module = types.ModuleType(HERE)
    seen: list[str] = []
    vars(module).update(
        Watching=Watching, Failing=Failing, seen=seen, watch=lambda one: seen.append(one.__name__)
    )
    monkeypatch.setitem(sys.modules, HERE, module)
    monkeypatch.delitem(sys.modules, "colorsys", raising=False)
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path])
    points = [
        EntryPoint(name.lower(), f"{HERE}:{name}", GROUP)
        for name in ("Watching", "Missing", "Failing")
    ]
    points.append(EntryPoint("jax", "workbench.frameworks.jax:JaxFramework", GROUP))
    monkeypatch.setattr("importlib.metadata.entry_points", lambda **_: points)
    frameworks.cache_clear()
    yield module
    frameworks.cache_clear()


def test_ours_are_installed_as_any_other_is() -> None:
    names = {type(one).__name__ for one in frameworks()}

    assert {"ChainerFramework", "JaxFramework", "TorchFramework"} <= names


def test_a_hook_is_called_when_a_program_imports_its_module(offered: types.ModuleType) -> None:
    install_frameworks()
    before = [*offered.seen]

    import colorsys

    assert (before, offered.seen) == ([], [colorsys.__name__])


def test_a_fork_server_learns_what_to_import_after_a_library(offered: types.ModuleType) -> None:
    found: dict[str, tuple[str, ...]] = {}

    preload(["workbench.engine.framework:preload_later"], found.update)

    assert found == preload_later() == {"/libwatch.so": ("watch", "watch.slow")}


def test_a_defect_of_one_is_said_and_leaves_the_others_watched(
    offered: types.ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    install_frameworks()
    import colorsys

    said = capsys.readouterr().err
    assert "'missing' (framework_of_a_test:Missing) is not watched" in said
    assert "Failing is not watched (OSError('a folder lacks'))" in said
    assert offered.seen == [colorsys.__name__]


def test_an_installation_from_before_says_what_to_do(
    offered: types.ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.metadata.entry_points", lambda **_: [])

    with pytest.raises(MachineError, match="without its frameworks; install it again"):
        frameworks()


@pytest.mark.parametrize(
    ("package", "command"),
    [
        ("torch", "`pip install torch`"),
        ("chainermn", "`pip install chainer==7.8.1`"),
        ("sklearn", "`pip install scikit-learn`"),
    ],
)
def test_an_import_of_what_is_not_installed_is_answered_with_the_command(package, command):
    error = ModuleNotFoundError(f"No module named {package!r}", name=package)

    assert explain_error(error) == f"{package} is not installed here: {command} adds it."


def test_a_missing_part_of_an_installed_package_has_no_command():
    assert explain_error(ModuleNotFoundError("no", name="torch.missing")) == ""
    assert explain_error(ModuleNotFoundError("no", name="my_module")) == ""
