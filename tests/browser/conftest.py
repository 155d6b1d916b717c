"""Real Jupyter servers for the specs of extension/ui-tests, and Playwright that runs them.

In the environment, WORKBENCH_UI_GREP chooses among the tests of a spec, WORKBENCH_UI_UPDATE renews
the pictures that are compared with, and WORKBENCH_UI_PICTURES names a folder for pictures to look
at.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from tests.browser.spec_run import PLAYWRIGHT, UI_TESTS, SpecRun
from tests.weekly import WEEKLY

ROOT = Path(__file__).parents[2]
SERVED = Path(sys.prefix) / "share" / "jupyter" / "labextensions" / "workbench-lab"
PLAYER = Path(__file__).parent / "player.py"
UV = shutil.which("uv") or str(ROOT / ".venv-uv" / "bin" / "uv")
TOKEN = "browser-tests"
DEADLINE_SECONDS = 60.0
RENEWS = bool(os.environ.get("WORKBENCH_UI_UPDATE"))
# JupyterLab's own: a toast with news would cover what is looked at.
OVERRIDES = {
    "@jupyterlab/apputils-extension:notification": {
        "fetchNews": "false",
        "checkForUpdates": False,
        "doNotDisturbMode": True,
    },
}


Install = Callable[[str], Path]


class Lab:
    """A Jupyter server that is started again whenever it ends, as a service manager would.

    Args:
        folder: Where its files go; short, since sockets' names have to fit into 108 bytes.
        base_url: Begins and ends with a slash.
        application: What is started, as in ``python -m jupyterlab``.
        options: Added to its command line.
        disabled: Front-end extensions that are switched off.
        environment: Added to its environment.
    """

    def __init__(
        self,
        folder: Path,
        base_url: str = "/",
        application: str = "jupyterlab",
        options: tuple[str, ...] = (),
        disabled: tuple[str, ...] = (),
        environment: dict[str, str] | None = None,
    ) -> None:
        self.folder, self.root, self.home = folder, folder / "root", folder / "home"
        self.root.mkdir()
        self.port = _free_port()
        self.base_url = base_url
        self.environment = os.environ | {
            "WORKBENCH_HOME": str(self.home),
            "IPYTHONDIR": str(folder / "ipython"),
            "JUPYTER_CONFIG_DIR": str(folder / "config"),
            "JUPYTER_DATA_DIR": str(folder / "data"),
            "JUPYTER_RUNTIME_DIR": str(folder / "runtime"),
            "TZ": "UTC",
            **(environment or {}),
        }
        self._write_settings(disabled)
        self._command = [
            sys.executable, "-m", application, "--no-browser", f"--ServerApp.port={self.port}",
            "--ServerApp.ip=127.0.0.1", "--ServerApp.port_retries=0",
            f"--ServerApp.base_url={base_url}", f"--ServerApp.root_dir={self.root}",
            f"--IdentityProvider.token={TOKEN}", "--LabApp.extension_manager=readonly",
            "--expose-app-in-browser",
            *(["--allow-root"] if os.geteuid() == 0 else []), *options,
        ]  # fmt: skip
        self._closing = threading.Event()
        self._log = (folder / "server.log").open("ab")
        self._server = self._start()
        self._keeper = threading.Thread(target=self._keep)
        self._keeper.start()

    def __repr__(self) -> str:
        return f"<Lab {self.url}, pid {self._server.pid}>"

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}{self.base_url}"

    def await_answer(self) -> Lab:
        deadline = time.monotonic() + DEADLINE_SECONDS
        while not self._answers():
            assert time.monotonic() < deadline, f"no answer from {self!r}\n{self.tail()}"
            time.sleep(0.05)
        return self

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        """Run our Python as a user of this server does."""
        return subprocess.run(
            [sys.executable, *command], env=self.environment, check=False, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=DEADLINE_SECONDS,
        )  # fmt: skip

    def tail(self) -> str:
        text = (self.folder / "server.log").read_text(encoding="utf-8", errors="replace")
        return "\n".join(text.splitlines()[-60:])

    def close(self) -> None:
        """End the server, which ends its kernels."""
        self._closing.set()
        children = psutil.Process(self._server.pid).children(recursive=True)
        self._server.terminate()
        try:
            self._server.wait(20)
        except subprocess.TimeoutExpired:
            self._server.kill()
        self._keeper.join()
        self._log.close()
        for process in children:
            with contextlib.suppress(psutil.Error):
                process.kill()

    def _keep(self) -> None:
        while not self._closing.is_set():
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._server.wait(0.2)
                if not self._closing.is_set():
                    self._server = self._start()

    def _start(self) -> subprocess.Popen[bytes]:
        server = subprocess.Popen(
            self._command, cwd=self.root, env=self.environment, stdin=subprocess.DEVNULL,
            stdout=self._log, stderr=self._log,
        )  # fmt: skip
        (self.folder / "server.pid").write_text(str(server.pid))
        return server

    def _answers(self) -> bool:
        request = urllib.request.Request(
            f"{self.url}api/status", headers={"Authorization": f"token {TOKEN}"}
        )
        try:
            with urllib.request.urlopen(request, timeout=5) as answer:
                return bool(answer.status == 200)
        except OSError:  # no process listens yet
            return False

    def _write_settings(self, disabled: tuple[str, ...]) -> None:
        config = self.folder / "config" / "labconfig"
        config.mkdir(parents=True)
        (config / "default_setting_overrides.json").write_text(json.dumps(OVERRIDES))
        page = {"disabledExtensions": dict.fromkeys(disabled, True)}
        (config / "page_config.json").write_text(json.dumps(page))


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


Opened = contextlib.AbstractContextManager[Lab]


def missing() -> str:
    """Say what these tests lack here, or nothing."""
    if not shutil.which("node"):
        return "there is no node"
    if not PLAYWRIGHT.exists():
        return "extension/ui-tests/node_modules is missing: make test brings it"
    if not (chromium() and Path(chromium()).exists()):
        return "there is no chromium: make test brings it on Debian"
    if not (SERVED / "package.json").exists():
        return "the extension is not built: make extension"
    return ""


def chromium() -> str:
    return os.environ.get("WORKBENCH_CHROMIUM") or shutil.which("chromium") or ""


def skip_or_fail(reason: str) -> None:
    """Skip for a reason, which is none where CI is set."""
    if os.environ.get("CI"):
        pytest.fail(f"CI has all that is needed, but {reason}")
    pytest.skip(reason)


def shrink(folder: Path) -> None:
    """Save pictures with few colours, which are compared with some tolerance anyway."""
    from PIL import Image

    for path in folder.glob("*.png"):
        with Image.open(path) as picture:
            few = picture.convert("RGB").quantize(160, dither=Image.Dither.NONE)
        few.save(path, optimize=True)


@pytest.fixture(scope="session")
def browser_folder() -> Path:
    if reason := missing():
        skip_or_fail(reason)
    # In the session's folder, where conftest.py looks for what is left running.
    session = Path(os.environ["WORKBENCH_HOME"]).parent
    return Path(tempfile.mkdtemp(prefix="ui", dir=session))


@pytest.fixture(scope="session")
def failures() -> Path:
    """Where pictures of failures stay after the session."""
    return Path(os.environ["PYTEST_DEBUG_TEMPROOT"]) / "workbench-browser-failures"


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Install:
    """Give a folder with one distribution that is not in this environment."""

    def install(requirement: str) -> Path:
        folder = tmp_path_factory.mktemp("extra")
        target = ["--python", sys.executable, "--target", str(folder)]
        done = subprocess.run(
            [UV, "pip", "install", "--quiet", "--no-deps", *target, requirement],
            check=False, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        if done.returncode:
            skip_or_fail(f"{requirement} cannot be installed: {done.stdout.strip()}")
        return folder

    return install


@contextlib.contextmanager
def with_ranks(lab: Lab) -> Iterator[Lab]:
    """With real ranks, as `lab`'s supervisor starts them."""
    try:
        yield lab.await_answer()
    finally:
        said = lab.run("-m", "workbench.cli", "delete")
        lab.close()
        assert not said.returncode or "nothing was deleted" in said.stdout, said.stdout


@contextlib.contextmanager
def with_player(lab: Lab) -> Iterator[Lab]:
    """With a player in the place of supervisor and ranks."""
    player = subprocess.Popen(
        [sys.executable, PLAYER, "serve"], env=lab.environment, stdout=subprocess.PIPE
    )
    assert player.stdout
    try:
        assert player.stdout.readline() == b"ready\n"
        yield lab.await_answer()
    finally:
        lab.close()
        player.send_signal(signal.SIGTERM)
        player.wait(DEADLINE_SECONDS)
        player.stdout.close()


def real(folder: Path, installed: Install) -> Opened:
    """Ranks, behind a prefix as JupyterHub has it, and an older kernel beside the newest."""
    older = folder / "data" / "kernels" / "older"
    older.mkdir(parents=True)
    spec = {
        "argv": [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"],
        "display_name": "ipykernel 7.3",
        "language": "python",
        "env": {"PYTHONPATH": str(installed("ipykernel==7.3.*"))},
    }
    (older / "kernel.json").write_text(json.dumps(spec))
    return with_ranks(Lab(folder, "/user/ann/"))


def played(folder: Path, installed: Install) -> Opened:
    """Facts at once, without ranks or kernels."""
    return with_player(Lab(folder))


def absent(folder: Path, installed: Install) -> Opened:
    """A server that does not have our part."""
    off = "--ServerApp.jpserver_extensions={'workbench.server': False}"
    return with_player(Lab(folder, options=(off,)))


def widget(folder: Path, installed: Install) -> Opened:
    """A page that does not have our part, as in VS Code or Colab."""
    form = {"WORKBENCH_LIVE_VIEW": "widget"}
    return with_player(Lab(folder, disabled=("workbench-lab",), environment=form))


def plain(folder: Path, installed: Install) -> Opened:
    """Notebook 7, which has no side panels, status bar or command palette of the lab."""
    extra = installed("notebook==7.6.*")
    environment = {
        "PYTHONPATH": str(extra),
        "JUPYTER_PATH": str(extra / "share" / "jupyter"),
        "JUPYTER_CONFIG_PATH": str(extra / "etc" / "jupyter"),
    }
    return with_player(Lab(folder, "/", "notebook", environment=environment))


KINDS = {"played": played, "absent": absent, "widget": widget, "plain": plain, "real": real}


@dataclass
class Running:
    """A server, and the specs that a browser goes through on it."""

    lab: Lab
    specs: SpecRun
    failures: Path
    environment: dict[str, str]

    def again(self, spec: str) -> None:
        """Run a file once more, before those whose turn has not come; keep the first pictures."""
        self.specs.close()
        self.environment["WORKBENCH_UI_OUTPUT"] = str(self.failures / "again")
        self.specs = SpecRun([spec, *self.specs.unfinished], _options(), self.environment)


@contextlib.contextmanager
def running(
    specs: list[str], folder: Path, failures: Path, installed: Install
) -> Iterator[Running]:
    """Begin with all specs of one folder on its server; they end with it."""
    kind = specs[0].partition("/")[0]
    kept = failures / kind
    shutil.rmtree(kept, ignore_errors=True)
    # Two letters, since the paths of sockets are to be short.
    home = Path(tempfile.mkdtemp(prefix=kind[:2], dir=folder))
    with KINDS[kind](home, installed) as lab:
        environment = _environment(lab, folder, kept)
        now = Running(lab, SpecRun(specs, _options(), environment), kept, environment)
        try:
            yield now
        finally:
            now.specs.close()
            is_first = environment["WORKBENCH_UI_OUTPUT"] == str(kept)
            if is_first and not now.specs.failed:
                shutil.rmtree(kept, ignore_errors=True)


def _options() -> list[str]:
    options = ["--update-snapshots=all"] if RENEWS else []
    options += [] if WEEKLY else ["--grep-invert=@weekly"]
    if only := os.environ.get("WORKBENCH_UI_GREP"):
        options += ["--grep", only]
    return options


def _environment(lab: Lab, folder: Path, kept: Path) -> dict[str, str]:
    temporary = folder / "tmp"
    temporary.mkdir(exist_ok=True)
    return lab.environment | {
        "WORKBENCH_CHROMIUM": chromium(),
        "WORKBENCH_UI_URL": lab.url,
        "WORKBENCH_UI_TOKEN": TOKEN,
        "WORKBENCH_UI_ROOT": str(lab.root),
        "WORKBENCH_UI_PYTHON": sys.executable,
        "WORKBENCH_UI_PLAYER": str(PLAYER),
        "WORKBENCH_UI_PID": str(lab.folder / "server.pid"),
        "WORKBENCH_UI_OUTPUT": str(kept),
        "TMPDIR": str(temporary),  # of the browser's profiles
        "NO_COLOR": "1",
    }


@pytest.fixture(scope="session")
def running_of(
    browser_folder: Path, failures: Path, installed: Install
) -> Iterator[Callable[[list[str]], Running]]:
    """Give what runs some specs of one folder; it ends when others' turn comes."""
    now = dict[str, Running]()
    with contextlib.ExitStack() as stack:

        def running_of(specs: list[str]) -> Running:
            if specs[0] not in now:
                now.clear()
                stack.close()
                begun = running(specs, browser_folder, failures, installed)
                now.update(dict.fromkeys(specs, stack.enter_context(begun)))
            return now[specs[0]]

        yield running_of


@pytest.fixture
def run_spec(
    running_of: Callable[[list[str]], Running], request: pytest.FixtureRequest
) -> Callable[[str], None]:
    """Run one file of specs in a real browser, and fail with all that it says.

    The first of a folder begins with all of them that were chosen.
    """

    def run(spec: str) -> None:
        folder = spec.partition("/")[0] + "/"
        chosen = [one for one in _specs_of(request.session) if one.startswith(folder)]
        now = running_of(chosen)
        if now.specs.knows(spec):  # pytest tries it once more
            now.again(spec)
        result = now.specs.result(spec)
        print(result.said)  # how long each test took; pytest shows it with -rP
        if RENEWS:
            shrink(UI_TESTS / "tests" / f"{spec}-snapshots")
        if result.failed:
            now.failures.mkdir(parents=True, exist_ok=True)
            log = now.lab.tail()
            (now.failures / "server.log").write_text(log)
            last = "\n".join(log.splitlines()[-15:])
            said = f"{result.said}\n{last}\nPictures and the server's log: {now.failures}"
            pytest.fail(said, pytrace=False)

    return run


def _specs_of(session: pytest.Session) -> list[str]:
    """The specs of the tests that this session runs."""
    calls = [getattr(item, "callspec", None) for item in session.items]
    return [call.params["spec"] for call in calls if call and "spec" in call.params]
