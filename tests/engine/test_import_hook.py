"""A function is called when a module is imported, which nothing here imports by itself."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Iterator

import pytest

from workbench.engine.import_hook import when_imported
from workbench.frameworks.torch.framework import TorchFramework

NAME = "imported_later"


@pytest.fixture(autouse=True)
def later(tmp_path, monkeypatch) -> Iterator[None]:
    """Have a module that is not imported yet."""
    (tmp_path / f"{NAME}.py").write_text("value = 1")
    monkeypatch.syspath_prepend(str(tmp_path))
    finders = [*sys.meta_path]
    yield
    sys.modules.pop(NAME, None)
    sys.meta_path[:] = finders


def test_a_module_is_wrapped_after_its_import() -> None:
    seen = []
    when_imported(NAME, lambda module: seen.append(module.value))
    assert NAME not in sys.modules

    importlib.import_module(NAME)

    assert seen == [1]


def test_a_module_that_is_there_is_wrapped_at_once() -> None:
    importlib.import_module(NAME)
    seen = []

    when_imported(NAME, lambda module: seen.append(module.value))

    assert seen == [1]


def test_a_module_is_waited_for_once() -> None:
    seen = []
    for _ in range(2):
        when_imported(NAME, lambda module: seen.append(module.value))

    importlib.import_module(NAME)

    assert seen == [1]


def test_a_module_is_wrapped_after_an_import_that_failed_first(tmp_path) -> None:
    file = tmp_path / f"{NAME}.py"
    seen = []
    when_imported(NAME, lambda module: seen.append(module.value))
    file.write_text("value = 1 / 0")
    with pytest.raises(ZeroDivisionError):
        importlib.import_module(NAME)

    file.write_text("value = 1  # now complete")
    importlib.invalidate_caches()
    importlib.import_module(NAME)

    assert seen == [1]


def test_a_module_is_wrapped_that_was_installed_after_an_import_that_failed(tmp_path) -> None:
    file = tmp_path / f"{NAME}.py"
    file.rename(tmp_path / "not_installed.txt")
    seen = []
    when_imported(NAME, lambda module: seen.append(module.value))
    for _ in range(2):
        with pytest.raises(ModuleNotFoundError):
            importlib.import_module(NAME)

    (tmp_path / "not_installed.txt").rename(file)
    importlib.invalidate_caches()
    importlib.import_module(NAME)

    assert seen == [1]


def test_a_submodule_is_wrapped_whose_package_was_missing_first(tmp_path) -> None:
    seen = []
    when_imported("package_of_later.part", lambda module: seen.append(module.value))
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("package_of_later.part")

    (tmp_path / "package_of_later").mkdir()
    (tmp_path / "package_of_later" / "__init__.py").touch()
    (tmp_path / "package_of_later" / "part.py").write_text("value = 2")
    importlib.invalidate_caches()
    importlib.import_module("package_of_later.part")

    assert seen == [2]


def test_a_module_is_wrapped_that_a_library_only_looked_for_before() -> None:
    seen = []
    when_imported(NAME, lambda module: seen.append(module.value))

    assert importlib.util.find_spec(NAME)
    importlib.import_module(NAME)

    assert seen == [1]


def test_two_hooks_of_one_module_are_both_called_after_an_import_that_failed(tmp_path) -> None:
    file, seen = tmp_path / f"{NAME}.py", []
    file.rename(tmp_path / "not_installed.txt")
    when_imported(NAME, lambda module: seen.append(module.value))
    when_imported(NAME, lambda module: seen.append(-module.value))
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module(NAME)

    (tmp_path / "not_installed.txt").rename(file)
    importlib.invalidate_caches()
    importlib.import_module(NAME)

    assert sorted(seen) == [-1, 1]


def test_another_module_that_is_called_torch_is_left_alone(monkeypatch, capsys) -> None:
    monkeypatch.setitem(sys.modules, "torch", importlib.import_module(NAME))

    TorchFramework().install()

    assert "get no curves" in capsys.readouterr().err
