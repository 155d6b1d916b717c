"""Jupyter finds the extension, loads it quickly, and starts whatever the store is like."""

from __future__ import annotations

import subprocess
import sys

import pytest
from jupyter_server.extension.manager import ExtensionPackage

from workbench import __version__
from workbench.store.database import FILE_NAME


def test_jupyter_finds_the_extension() -> None:
    package = ExtensionPackage(name="workbench.server", enabled=True)

    assert package.validate()
    assert list(package.extension_points) == ["workbench"]
    assert package.version == __version__


def test_loading_it_loads_none_of_what_draws_and_counts() -> None:
    code = (
        "import sys, workbench.server as s; s._jupyter_server_extension_points();"
        "print(*{'numpy', 'matplotlib', 'pydantic', 'workbench.pages.feed'}"
        " & sys.modules.keys())"
    )

    answer = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )

    assert answer.stdout.strip() == ""


class TestAStoreThatIsNone:
    @pytest.fixture(autouse=True)
    def damaged(self, home) -> None:
        (home / FILE_NAME).write_bytes(b"not a database" * 1000)

    async def test_does_not_keep_the_server_from_starting(self, jp_fetch, ask, follow) -> None:
        status = await jp_fetch("api", "status")
        answer = await ask("GET", "clusters")
        async with follow("260101-000000-aaaa") as listener:
            code, reason = await listener.hear_out()

        assert (status.code, answer.status, code) == (200, 503, 4503)
        assert "move the file away" in answer.message
        assert reason.startswith("The store ")
