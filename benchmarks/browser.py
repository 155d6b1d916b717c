"""One page in Chromium without a window, spoken to in its own DevTools protocol."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import subprocess
import time
import urllib.request
from pathlib import Path
from typing import Any, Self

import psutil
from tornado.websocket import WebSocketClientConnection, WebSocketClosedError, websocket_connect

from .figures import BenchmarkFailed
from .place import children, end

NAME = "chromium"
WATCH = Path(__file__).parent / "scripts" / "page_watch.js"
OPEN_SECONDS = 60.0
ANSWER_SECONDS = 60.0
# As the browser tests start it; a page that is covered by no window has to stay as quick.
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-background-timer-throttling",
    "--disable-backgrounding-occluded-windows",
    "--disable-component-update",
    "--disable-dev-shm-usage",
    "--disable-renderer-backgrounding",
    "--disable-sync",
    "--window-size=1280,1000",
)


class Browser:
    """A browser with one page.

    Args:
        folder: For all that it writes, and for nothing else.
        watched: Whether ``scripts/page_watch.js`` watches it, in each frame of the screen.
    """

    def __init__(self, folder: Path, *, watched: bool = True) -> None:
        self._folder = folder
        self._watched = watched
        self._asked = 0
        self._socket: WebSocketClientConnection | None = None

    def __enter__(self) -> Self:
        if not (program := shutil.which(NAME)):
            raise BenchmarkFailed(f"There is no {NAME} here; make bench installs it.")
        self._folder.mkdir(parents=True)
        self._process = subprocess.Popen(
            [program, *FLAGS, "--remote-debugging-port=0", f"--user-data-dir={self._folder}"],
            env={**os.environ, "HOME": str(self._folder)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # an interrupt at the keyboard is for us alone
        )
        self._loop = asyncio.new_event_loop()
        try:
            self._call("Page.enable")
            if self._watched:
                watch = WATCH.read_text(encoding="utf-8")
                self._call("Page.addScriptToEvaluateOnNewDocument", source=watch)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(psutil.NoSuchProcess):
            processes = [psutil.Process(self._process.pid)]
            processes += processes[0].children(recursive=True)
            self._process.terminate()
            end(processes)
        self._process.wait()
        if self._socket:
            self._loop.run_until_complete(_over(self._socket))
        self._loop.close()

    @property
    def processes(self) -> list[int]:
        """All its processes."""
        return [self._process.pid, *children(self._process.pid, NAME)]

    @property
    def renderers(self) -> list[int]:
        """The processes that lay out and draw."""
        return children(self._process.pid, "--type=renderer")

    def go(self, url: str) -> None:
        """Open ``url``."""
        self._call("Page.navigate", url=url)

    def evaluate(self, expression: str) -> Any:
        """Return the value of a JavaScript expression; a promise's, once it is kept.

        Raises:
            BenchmarkFailed: It threw.
        """
        answer = self._call(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        if wrong := answer.get("exceptionDetails"):
            said = wrong.get("exception", {}).get("description") or wrong["text"]
            raise BenchmarkFailed(f"The page failed: {said.splitlines()[0]}.")
        return answer["result"].get("value")

    def _address(self) -> str:
        """Return where the page listens."""
        reported = self._folder / "DevToolsActivePort"
        deadline = time.monotonic() + OPEN_SECONDS
        while time.monotonic() < deadline and self._process.poll() is None:
            if reported.exists() and (lines := reported.read_text(encoding="utf-8").splitlines()):
                with urllib.request.urlopen(f"http://127.0.0.1:{lines[0]}/json/list") as answer:
                    pages = [one for one in json.load(answer) if one["type"] == "page"]
                if pages:
                    return str(pages[0]["webSocketDebuggerUrl"])
            time.sleep(0.1)
        raise BenchmarkFailed(f"{NAME} did not start.")

    def _call(self, method: str, **parameters: object) -> dict[str, Any]:
        try:
            return self._loop.run_until_complete(
                asyncio.wait_for(self._answer(method, parameters), ANSWER_SECONDS)
            )
        except (TimeoutError, WebSocketClosedError) as error:
            raise BenchmarkFailed(f"{NAME} did not answer {method}.") from error

    async def _answer(self, method: str, parameters: dict[str, object]) -> dict[str, Any]:
        self._asked += 1
        asked = {"id": self._asked, "method": method, "params": parameters}
        if self._socket is None:
            self._socket = await websocket_connect(self._address())
        await self._socket.write_message(json.dumps(asked))
        while (text := await self._socket.read_message()) is not None:
            message = json.loads(text)
            if message.get("id") == self._asked:
                if "error" in message:
                    raise BenchmarkFailed(f"{NAME} refused {method}: {message['error']}.")
                return dict(message["result"])
        raise BenchmarkFailed(f"{NAME} ended while it was asked {method}.")


async def _over(socket: WebSocketClientConnection) -> None:
    """Wait until the other side is known to have gone."""
    while await socket.read_message() is not None:
        pass
    socket.close()
