"""A JupyterLab server of our own, and one notebook at a time in a browser's page."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import psutil

from workbench.notebook.live_widget import LAB_EXTENSION

from .browser import Browser
from .figures import BenchmarkFailed
from .place import Place, children, end

OPTIONS = (
    "--allow-root",
    "--no-browser",
    "--expose-app-in-browser",
    "--ServerApp.port=0",
)
NEWS = "@jupyterlab/apputils-extension:announcements"  # asks something, over the page
START_SECONDS = 60.0
OPEN_SECONDS = 90.0
DRAWN_SECONDS = 90.0
QUIET_SECONDS = 2.0
_PANEL = "[...jupyterapp.shell.widgets('main')].find(one => one.context?.path === {name})"


class Lab:
    """The server, which knows no notebooks but ours."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._token = secrets.token_hex(16)
        self._url = ""

    def __enter__(self) -> Self:
        self._folder = self._place.path("notebooks")
        self._folder.mkdir()
        self._log = self._place.path("lab.log")
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "jupyterlab", *OPTIONS],
                cwd=self._folder,
                env={**os.environ, "JUPYTER_TOKEN": self._token},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # an interrupt at the keyboard is for us alone
            )
        try:
            self._url = self._address()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        end([psutil.Process(self._process.pid)] if self._process.poll() is None else [])
        self._process.wait()

    @property
    def pid(self) -> int:
        """The server's process."""
        return self._process.pid

    @property
    def kernels(self) -> list[int]:
        """The processes of the kernels."""
        return children(self.pid, "ipykernel")

    @contextmanager
    def notebook(
        self, browser: Browser, cells: Sequence[str], *, extension: bool = True
    ) -> Iterator[Notebook]:
        """Yield a notebook whose kernel is idle, and end the kernel afterwards.

        Args:
            extension: Whether the page loads our lab extension.

        Raises:
            BenchmarkFailed: It did not open.
        """
        path = self._place.path("live.ipynb")
        _write(self._folder / path.name, cells)
        _write_page_config({NEWS: True, LAB_EXTENSION: not extension})
        browser.go(f"{self._url}lab/tree/{path.name}?token={self._token}&reset")
        try:
            notebook = Notebook(browser, path.name)
            notebook.wait()
            yield notebook
        finally:
            for kernel in self._ask("GET", "api/kernels"):
                self._ask("POST", f"api/kernels/{kernel['id']}/interrupt")
                self._ask("DELETE", f"api/kernels/{kernel['id']}")

    def _address(self) -> str:
        """Return where the server listens, once it answers."""
        reported = Path(os.environ["JUPYTER_RUNTIME_DIR"], f"jpserver-{self.pid}.json")
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline and self._process.poll() is None:
            if reported.exists() and (text := reported.read_text(encoding="utf-8")):
                return str(json.loads(text)["url"])
            time.sleep(0.1)
        lines = self._log.read_text(encoding="utf-8").splitlines() or ["it said nothing"]
        raise BenchmarkFailed(f"JupyterLab did not start: {lines[-1]}.")

    def _ask(self, method: str, path: str) -> Any:
        request = urllib.request.Request(
            self._url + path, method=method, headers={"Authorization": f"token {self._token}"}
        )
        try:
            with urllib.request.urlopen(request, timeout=START_SECONDS) as answer:
                return json.loads(answer.read() or b"null")
        except OSError as error:
            raise BenchmarkFailed(f"JupyterLab did not answer {method} {path}: {error}.") from error


class Notebook:
    """An open notebook."""

    def __init__(self, browser: Browser, name: str) -> None:
        self._browser = browser
        self._panel = _PANEL.format(name=json.dumps(name))

    def wait(self) -> None:
        """Wait until its kernel is idle."""
        kernel = f"window.jupyterapp && {self._panel}?.sessionContext?.session?.kernel?.status"
        deadline = time.monotonic() + OPEN_SECONDS
        while self._browser.evaluate(kernel) != "idle":
            if time.monotonic() > deadline:
                raise BenchmarkFailed("The notebook did not open in JupyterLab's page.")
            time.sleep(0.2)

    def run(self, cell: int) -> None:
        """Run a cell, without waiting for it."""
        self._browser.evaluate(
            f"(() => {{ {self._panel}.content.activeCellIndex = {cell};"
            "jupyterapp.commands.execute('notebook:run-cell'); })()"
        )

    def wait_points(self) -> None:
        """Wait until a run's view has points."""
        points = "Number(document.querySelector('.wb-run')?.dataset.points ?? 0)"
        begun = time.monotonic()
        while not self._browser.evaluate(points):
            if time.monotonic() - begun > DRAWN_SECONDS:
                raise BenchmarkFailed(f"{self._said() or 'No points came'}.")
            time.sleep(0.2)

    def wait_drawn(self, kind: str) -> None:
        """Wait until something was drawn, and nothing more comes for a while.

        Args:
            kind: ``canvas``, ``path`` or ``image``.
        """
        drawn = False
        since = begun = time.monotonic()
        while not drawn or time.monotonic() - since < QUIET_SECONDS:
            if self._browser.evaluate("takeSeen()")[kind]:
                drawn, since = True, time.monotonic()
            if time.monotonic() - begun > DRAWN_SECONDS:
                least = "It is drawn again and again" if drawn else "Nothing was drawn"
                raise BenchmarkFailed(f"{self._said() or least}.")
            time.sleep(0.2)

    def _said(self) -> str:
        """Return the first error that a cell shows."""
        return str(
            self._browser.evaluate(
                f"{self._panel}.model.sharedModel.cells.flatMap(cell => cell.outputs ?? [])"
                ".filter(one => one.output_type === 'error')"
                ".map(one => `A cell failed with ${one.ename}: ${one.evalue}`)[0] ?? ''"
            )
        )


def _write(path: Path, cells: Sequence[str]) -> None:
    hidden = {"jupyter": {"source_hidden": True}}  # leaves the page to what is shown
    made: list[dict[str, Any]] = [
        {
            "cell_type": "code",
            "execution_count": None,
            "id": f"cell-{number}",
            "metadata": hidden,
            "outputs": [],
            "source": source,
        }
        for number, source in enumerate(cells)
    ]
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    notebook = {
        "cells": made,
        "metadata": {"kernelspec": kernel},
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    path.write_text(json.dumps(notebook), encoding="utf-8")


def _write_page_config(disabled: dict[str, bool]) -> None:
    """Tell the next page what it is to leave out."""
    path = Path(os.environ["JUPYTER_CONFIG_DIR"], "labconfig", "page_config.json")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"disabledExtensions": disabled}), encoding="utf-8")
