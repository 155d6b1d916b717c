"""Every string that the extension shows has its translation, in the form that JupyterLab reads."""

from __future__ import annotations

import importlib.util
import re
import tomllib
from pathlib import Path
from types import ModuleType

import pytest
from babel.messages.catalog import Catalog, Message

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "extension" / "catalogue.py"
CATALOGUES = sorted((ROOT / "workbench" / "locale").glob("*/LC_MESSAGES/workbench.po"))
# A text that the server sent is found where the server composes it.
CALL = re.compile(r"\.(?:__|_n|_p|_np)\((?!text[,)])")
PYTHON_CALL = re.compile(r"(?<!def )\b(?:phrase|counted)\(")


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    """The script that keeps catalogues in step."""
    spec = importlib.util.spec_from_file_location("catalogue", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def template(tool: ModuleType) -> Catalog:
    """All strings of the sources."""
    return tool.extracted()


@pytest.fixture(params=CATALOGUES, ids=lambda path: path.parents[1].name)
def translated(request: pytest.FixtureRequest, tool: ModuleType) -> list[Message]:
    """The translations into one language."""
    return [message for message in tool.read(request.param) if message.id]


def forms(text: str | tuple[str, ...] | list[str]) -> list[str]:
    """Give the one form of ``text`` or all of them."""
    return [text] if isinstance(text, str) else list(text)


def test_there_is_a_japanese_catalogue() -> None:
    """Many users of ChainerMN read Japanese."""
    assert "ja_JP" in [path.parents[1].name for path in CATALOGUES]


def test_every_call_for_a_translation_is_found(tool: ModuleType) -> None:
    """A string that the extraction overlooks would stay English for ever."""
    for path in tool.sources():
        calls = len(CALL.findall(path.read_text(encoding="utf-8")))
        assert len(tool.strings(path)) == calls, path
    for path in tool.python_sources():
        calls = len(PYTHON_CALL.findall(path.read_text(encoding="utf-8")))
        assert len(tool.strings(path)) == calls, path


def test_every_string_is_translated(translated: list[Message], template: Catalog) -> None:
    """What the sources have, the catalogue has, and nothing else."""
    known = {(message.id, message.context) for message in translated}

    assert known == {(message.id, message.context) for message in template if message.id}
    assert [m.id for m in translated if not all(forms(m.string))] == []


def test_values_go_where_they_went(translated: list[Message], tool: ModuleType) -> None:
    """A translation has the same ``%1`` as its string; a plural, those of all its forms."""
    for message in translated:
        wanted = tool.placeholders("".join(forms(message.id)))
        for form in forms(message.string):
            assert tool.placeholders(form) == wanted, message.id


def test_the_compiled_catalogue_is_in_step(
    tool: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    """``python extension/catalogue.py`` has been run since the last change."""
    assert tool.main(check=True) == 0, capsys.readouterr().out


def test_jupyterlab_finds_the_catalogue() -> None:
    """By an entry point whose name is the file's, and whose module is beside ``locale``."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]

    assert project["entry-points"]["jupyterlab.locale"] == {"workbench": "workbench"}
    for path in CATALOGUES:
        assert path.with_suffix(".json").exists()
