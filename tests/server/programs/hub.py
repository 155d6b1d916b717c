"""Serve two real users of this machine through JupyterHub, and print what each can do and see.

``hub.py PROXY``, as root, in mount, network and process namespaces of its own, so that users, files
and servers end with it. PROXY is the configurable-http-proxy.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
from tornado.httpclient import AsyncHTTPClient, HTTPRequest, HTTPResponse
from tornado.websocket import websocket_connect

FOLDER, PROXY = Path("/mnt"), sys.argv[1]
ROOT = Path(__file__).parents[3]
HUB = "http://127.0.0.1:8000/campus"
TOKEN = "of-the-administrator"
USERS = {"wbann": 64101, "wbbo": 64102}
ANN, BO = USERS
RANKS = 2
SECONDS = 120.0
CONFIG = f"""
c.JupyterHub.base_url = "/campus/"
c.JupyterHub.bind_url = "http://127.0.0.1:8000/campus/"
c.JupyterHub.hub_port = 8081
c.JupyterHub.db_url = "sqlite:///{FOLDER}/hub.sqlite"
c.JupyterHub.cookie_secret_file = "{FOLDER}/secret"
c.JupyterHub.authenticator_class = "dummy"
c.JupyterHub.services = [{{"name": "administrator", "api_token": "{TOKEN}", "admin": True}}]
c.Authenticator.allowed_users = {set(USERS)}
c.ConfigurableHTTPProxy.command = ["{PROXY}"]
c.ConfigurableHTTPProxy.pid_file = "{FOLDER}/proxy.pid"
c.Spawner.cmd = ["{sys.executable}", "-m", "jupyterhub.singleuser"]
c.Spawner.environment = {{"WORKBENCH_LIMITS": "{FOLDER}/limits.toml", "PYTHONUNBUFFERED": "1"}}
c.Spawner.start_timeout = c.Spawner.http_timeout = {SECONDS:.0f}
"""


def make_users() -> None:
    """Add two users to this namespace's own copies of the system's files."""
    for name, line in (
        ("passwd", "{user}:x:{uid}:{uid}::{home}:/bin/bash\n"),
        ("group", "{user}:x:{uid}:\n"),
    ):
        copy = FOLDER / name
        text = Path("/etc", name).read_text()
        homes = {user: FOLDER / "homes" / user for user in USERS}
        lines = [line.format(user=user, uid=uid, home=homes[user]) for user, uid in USERS.items()]
        copy.write_text(text + "".join(lines))
        mount("--bind", str(copy), f"/etc/{name}")
    for user, uid in USERS.items():
        home = FOLDER / "homes" / user
        home.mkdir(parents=True)
        home.chmod(0o700)
        os.chown(home, uid, uid)


def open_folders() -> None:
    """Let every user read Python, this checkout and Node, also where they are in root's home."""
    needed = [Path(sys.base_prefix), Path(sys.prefix), ROOT, Path(PROXY).resolve().parent]
    needed.append(Path(shutil.which("node") or "/").resolve().parent)
    for number, path in enumerate(needed):
        closed = [one for one in (path, *path.parents) if not one.stat().st_mode & 0o001]
        if not closed:
            continue
        kept = FOLDER / f"kept-{number}"
        kept.mkdir()
        mount("--bind", str(path), str(kept))
        mount("-t", "tmpfs", "-o", "mode=755", "none", str(closed[-1]))
        path.mkdir(parents=True)
        mount("--bind", str(kept), str(path))


def mount(*words: str) -> None:
    subprocess.run(["mount", *words], check=True)


def as_user(user: str, *words: str) -> str:
    """Run our command in a shell of a user's, and return all that it says."""
    answer = subprocess.run(
        [f"{sys.prefix}/bin/workbench", *words],
        env={
            "HOME": str(FOLDER / "homes" / user),
            "PATH": f"{sys.prefix}/bin:/usr/bin:/bin",
            "WORKBENCH_LIMITS": str(FOLDER / "limits.toml"),
        },
        cwd=FOLDER / "homes" / user,
        user=USERS[user],
        group=USERS[user],
        extra_groups=[],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        text=True,
        check=False,
        timeout=SECONDS,
    )
    return answer.stdout


async def ask(
    path: str, method: str = "GET", body: object = None, token: str = TOKEN
) -> HTTPResponse:
    return await AsyncHTTPClient().fetch(
        HTTPRequest(
            HUB + path,
            method,
            {"Authorization": f"token {token}"},
            json.dumps(body) if body is not None else ("" if method in ("POST", "PUT") else None),
            allow_nonstandard_methods=True,
            request_timeout=SECONDS,
            follow_redirects=False,
        ),
        raise_error=False,
    )


async def until(look: Callable[[], Any]) -> Any:
    deadline = time.monotonic() + SECONDS
    while True:
        try:
            found = await look()
        except OSError:
            found = None
        if found:
            return found
        assert time.monotonic() < deadline, "nothing came of it"
        await asyncio.sleep(0.1)


async def enter(user: str) -> str:
    """Start a user's server, and return the user's own token."""
    await ask(f"/hub/api/users/{user}/server", "POST")

    async def is_ready() -> bool:
        known = json.loads((await ask(f"/hub/api/users/{user}")).body)
        return bool(known.get("servers", {}).get("", {}).get("ready"))

    await until(is_ready)
    given = await ask(f"/hub/api/users/{user}/tokens", "POST", {})
    return str(json.loads(given.body)["token"])


class Notebook:
    """A kernel of a user's, reached through the proxy as a page does."""

    def __init__(self, user: str, token: str) -> None:
        self.user, self.token = user, token
        self._socket: Any = None

    async def open(self) -> None:
        made = await ask(f"/user/{self.user}/api/kernels", "POST", {}, self.token)
        kernel = json.loads(made.body)["id"]
        self._socket = await connect(f"/user/{self.user}/api/kernels/{kernel}/channels", self.token)
        await self.run("%load_ext workbench")

    async def run(self, code: str) -> str:
        """Run a cell, and return the text that it shows."""
        identity, said = uuid.uuid4().hex, list[str]()
        done = set[str]()
        header = {"msg_id": identity, "msg_type": "execute_request", "username": "", "session": "s"}
        content = {"code": code, "silent": False, "store_history": False, "allow_stdin": False}
        message = {"header": header | {"version": "5.3"}, "parent_header": {}, "metadata": {}}
        await self._socket.write_message(
            json.dumps(message | {"content": content, "channel": "shell", "buffers": []})
        )
        while done != {"reply", "idle"}:
            got = json.loads(await asyncio.wait_for(self._socket.read_message(), SECONDS))
            if got["parent_header"].get("msg_id") != identity:
                continue
            kind, content = got["msg_type"], got["content"]
            if kind == "execute_reply":
                done.add("reply")
            elif kind == "status" and content["execution_state"] == "idle":
                done.add("idle")
            elif kind == "stream":
                said.append(content["text"])
            elif kind == "error":
                said.append("\n".join(content["traceback"]))
        return "".join(said)


async def connect(path: str, token: str) -> Any:
    request = HTTPRequest(
        HUB.replace("http", "ws") + path, headers={"Authorization": f"token {token}"}
    )
    return await websocket_connect(request)


async def first_message(path: str, token: str) -> str:
    """Return the first message of one of our WebSockets, or why there is none."""
    try:
        socket_ = await connect(path, token)
        got = await asyncio.wait_for(socket_.read_message(), SECONDS)
    except Exception as error:  # noqa: BLE001 - what refuses is what is asked about
        return str(error)
    return got if isinstance(got, str) else f"{len(got or b'')} bytes"


def ports_of(user: str) -> dict[int, str]:
    """Return the TCP ports on which a user's processes listen, with what listens."""
    found = {}
    for one in psutil.net_connections("tcp"):
        if one.status == psutil.CONN_LISTEN and one.pid and one.laddr:
            process = psutil.Process(one.pid)
            if process.uids().real == USERS[user]:
                words = process.cmdline()
                is_python = Path(words[0]).name.startswith("python")
                found[one.laddr[1]] = words[2] if is_python else Path(words[0]).name
    return found


def answers(ports: list[int]) -> dict[int, str]:
    """Return what another user gets from ports of this machine: ``NULL`` asks for no key."""
    uid = USERS[BO]
    answer = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("greet.py")), *map(str, ports)],
        user=uid,
        group=uid,
        extra_groups=[],
        capture_output=True,
        text=True,
        check=True,
    )
    return {int(port): said for port, said in json.loads(answer.stdout).items()}


def main() -> None:
    mount("-t", "tmpfs", "-o", "mode=755", "none", str(FOLDER))
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    mount("-t", "tmpfs", "none", "/dev/shm")
    make_users()
    open_folders()
    (FOLDER / "limits.toml").write_text(f"ranks = {RANKS}\nnodes = 0\n")
    (FOLDER / "config.py").write_text(CONFIG)
    with (FOLDER / "hub.log").open("wb") as log:
        hub = subprocess.Popen(
            [sys.executable, "-m", "jupyterhub", "-f", str(FOLDER / "config.py")],
            cwd=FOLDER,
            stdout=log,
            stderr=log,
        )
    try:
        print(json.dumps(asyncio.run(visit())))
    except BaseException:
        sys.stderr.write((FOLDER / "hub.log").read_text()[-20000:])
        raise
    finally:
        hub.terminate()
        hub.wait()


async def visit() -> dict[str, Any]:
    async def is_up() -> bool:
        return (await ask("/hub/health")).code == 200

    await until(is_up)
    tokens = dict(zip(USERS, await asyncio.gather(*map(enter, USERS)), strict=True))
    notebooks = {user: Notebook(user, tokens[user]) for user in USERS}
    await asyncio.gather(*(one.open() for one in notebooks.values()))
    cell = f"%%dist_train --ranks {RANKS} --oversubscribe --name fit\nimport workbench, os\n"
    cell += "workbench.report(loss=1.0)\nprint('uid', os.getuid())"
    ran = await asyncio.gather(*(one.run(cell) for one in notebooks.values()))
    seen: dict[str, Any] = {"ran": ran}
    api = f"/user/{ANN}/workbench/api"
    runs = {
        user: json.loads((await ask(f"/user/{user}/workbench/api/runs", token=tokens[user])).body)
        for user in USERS
    }
    seen["runs"] = {user: [run["id"] for run in found["runs"]] for user, found in runs.items()}
    follow = f"{api}/runs/{seen['runs'][ANN][0]}/follow"
    seen["follow"] = await first_message(follow, tokens[ANN])
    seen["follow_as_other"] = await first_message(follow, tokens[BO])
    seen["rest_as_other"] = (await ask(f"{api}/runs", token=tokens[BO])).code
    ports = ports_of(ANN)
    got = answers([*ports])
    seen["ports"] = sorted({f"{ports[port]}: {said}" for port, said in got.items()})
    home = FOLDER / "homes" / ANN
    (home / "train.py").write_text("")
    (home / "job.toml").write_text(f'script = "train.py"\nranks = {RANKS + 1}\n')
    as_user(ANN, "run", "--name", "script", "--restart", "train.py")
    more = await ask(
        f"{api}/clusters/default", "PATCH", {"ranks": RANKS + 1, "oversubscribe": True}, tokens[ANN]
    )
    seen["refused"] = {
        "page": [more.code, json.loads(more.body).get("message")],
        "cell": await notebooks[ANN].run(f"%%dist_train --ranks {RANKS + 1} --oversubscribe\npass"),
        "magic": await notebooks[ANN].run(f"%dist_resize {RANKS + 1} --oversubscribe"),
        "job": as_user(ANN, "run", "job.toml", "--oversubscribe"),
        "resume": as_user(
            ANN, "run", "--resume", "script", "--ranks", f"{RANKS + 1}", "--oversubscribe"
        ),
        "shell": as_user(ANN, "resize", f"{RANKS + 1}", "--oversubscribe"),
    }
    for user in USERS:
        as_user(user, "delete")
    return seen


main()
