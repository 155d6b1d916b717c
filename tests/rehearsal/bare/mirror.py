"""The proxy of machines without a network: to the package registries of this machine.

An HTTP proxy on the bridge. It hands on what goes to a host of the registries, and refuses all
else; Debian's packages, which never change under their name, are kept for the next machine.
"""

from __future__ import annotations

import contextlib
import hashlib
import select
import shutil
import socket
import sys
import threading
import time
import urllib.error
import urllib.request
from collections import defaultdict
from collections.abc import Callable, Collection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

T = TypeVar("T")
SECONDS = 60.0
# A resolver that is asked by many at once says "try again".
TRIES, PAUSE_SECONDS = 6, 0.5
CHUNK_NBYTES = 1 << 16
# A package, or an index that is named by its hash.
UNCHANGING = ("/pool/", "/by-hash/")
PASSED_ON = ("Content-Type", "Last-Modified", "ETag")


class Mirror:
    """The proxy; a context, at whose end it is gone.

    Args:
        address: Where it listens.
        hosts: Names of the hosts to which it leads.
        folder: Where it keeps packages.
        proxies: This machine's own, by scheme, such as ``{"http": "http://cache:3142"}``.
    """

    def __init__(
        self, address: str, hosts: Collection[str], folder: Path, proxies: dict[str, str]
    ) -> None:
        self.hosts = frozenset(hosts)
        self.folder = folder
        self.opener = urllib.request.build_opener(urllib.request.ProxyHandler(proxies))
        self.tunnel = proxies.get("https", "")
        self.locks: dict[str, threading.Lock] = defaultdict(threading.Lock)
        self.refused: list[str] = []
        self._server = Server((address, 0), type("Bound", (Way,), {"mirror": self}))
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    def __enter__(self) -> Mirror:
        self.folder.mkdir(parents=True, exist_ok=True)
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @property
    def url(self) -> str:
        """What a machine names as its proxy."""
        address, port = self._server.server_address[:2]
        return f"http://{address!s}:{port}"


class Server(ThreadingHTTPServer):
    """Says nothing of machines that end while they download."""

    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)  # type: ignore[arg-type]  # it is handed on


class Way(BaseHTTPRequestHandler):
    """One request of a machine's."""

    mirror: Mirror

    def do_GET(self) -> None:
        if not self._is_allowed(urlsplit(self.path).hostname):
            return
        if not any(part in self.path for part in UNCHANGING):
            self._pass_on()
            return
        kept = self.mirror.folder / hashlib.sha256(self.path.encode()).hexdigest()
        with self.mirror.locks[kept.name]:
            if kept.exists() or self._fetch(kept):
                self._send(kept)

    def do_CONNECT(self) -> None:
        host, _, port = self.path.rpartition(":")
        if not self._is_allowed(host):
            return
        try:
            there = _patiently(lambda: self._dial(host, int(port)))
        except OSError as error:
            self.send_error(502, str(error))
            return
        with there:
            self.send_response(200)
            self.end_headers()
            with contextlib.suppress(OSError):
                _join(self.connection, there)
        self.close_connection = True

    def log_message(self, format: str, *args: object) -> None:
        return None

    def _is_allowed(self, host: str | None) -> bool:
        if host in self.mirror.hosts:
            return True
        self.mirror.refused.append(host or "")
        self.send_error(403, "This is not one of the registries.")
        return False

    def _open(self, request: urllib.request.Request) -> Any:
        return self.mirror.opener.open(request, timeout=SECONDS)

    def _request(self) -> urllib.request.Request:
        since = self.headers.get("If-Modified-Since")
        headers = {"If-Modified-Since": since} if since else {}
        return urllib.request.Request(self.path, headers=headers)

    def _pass_on(self) -> None:
        try:
            with _patiently(lambda: self._open(self._request())) as answer:
                text = answer.read()
                self.send_response(200)
                for name in PASSED_ON:
                    if name in answer.headers:
                        self.send_header(name, answer.headers[name])
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)
        except urllib.error.HTTPError as error:
            self.send_response(error.code)
            self.send_header("Content-Length", "0")
            self.end_headers()
        except OSError as error:
            self.send_error(502, str(error))

    def _fetch(self, kept: Path) -> bool:
        new = kept.with_suffix(".new")
        try:
            with (
                _patiently(lambda: self._open(urllib.request.Request(self.path))) as answer,
                new.open("wb") as file,
            ):
                shutil.copyfileobj(answer, file)
        except urllib.error.HTTPError as error:
            self.send_error(error.code)
            return False
        except OSError as error:
            self.send_error(502, str(error))
            return False
        new.replace(kept)
        return True

    def _send(self, kept: Path) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(kept.stat().st_size))
        self.end_headers()
        with kept.open("rb") as file:
            shutil.copyfileobj(file, self.wfile)

    def _dial(self, host: str, port: int) -> socket.socket:
        if not self.mirror.tunnel:
            return socket.create_connection((host, port), SECONDS)
        proxy = urlsplit(self.mirror.tunnel)
        there = socket.create_connection((proxy.hostname, proxy.port or 80), SECONDS)
        there.sendall(f"CONNECT {host}:{port} HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n".encode())
        said = b""
        while not said.endswith(b"\r\n\r\n"):
            said += there.recv(1) or b"\r\n\r\n"
        if b" 200 " not in said.splitlines()[0]:
            there.close()
            raise OSError(said.splitlines()[0].decode())
        return there


def _patiently(dial: Callable[[], T]) -> T:
    """Call again while the resolver says that it fails for the moment."""
    for _ in range(TRIES - 1):
        try:
            return dial()
        except OSError as error:
            cause = getattr(error, "reason", error)
            if not (isinstance(cause, socket.gaierror) and cause.errno == socket.EAI_AGAIN):
                raise
            time.sleep(PAUSE_SECONDS)
    return dial()


def _join(one: socket.socket, other: socket.socket) -> None:
    """Carry bytes both ways until one end closes."""
    facing = {one: other, other: one}
    while True:
        ready, _, _ = select.select([one, other], [], [], SECONDS)
        if not ready:
            return
        for end in ready:
            data = end.recv(CHUNK_NBYTES)
            if not data:
                return
            facing[end].sendall(data)
