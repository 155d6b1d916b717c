"""The metadata service of one machine, version 2 alone, with its content from a file.

Run on the host, with the file's path: the server of the rehearsal writes the present state there.
"""

from __future__ import annotations

import json
import secrets
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

ADDRESS = "169.254.169.254"
PORT = 80
TTL = "X-aws-ec2-metadata-token-ttl-seconds"
TOKEN = "X-aws-ec2-metadata-token"


def look_up(known: dict[str, str], path: str) -> str | None:
    """Return the content of a path, or the names in a folder; None if it does not exist.

    Every version of the service, such as ``latest`` or ``2021-03-23``, says the same.
    """
    within = path.lstrip("/").partition("/")[2].rstrip("/")
    if within in known:
        return known[within]
    start = f"{within}/" if within else ""
    names = {name.removeprefix(start) for name in known if name.startswith(start)}
    # A folder's name ends with a stroke.
    shown = sorted({f"{name.split('/')[0]}{'/' if '/' in name else ''}" for name in names})
    return "\n".join(shown) if shown else None


class Metadata(BaseHTTPRequestHandler):
    """Answers a path with what the file has for it; 404 for what it has not."""

    file = Path()
    tokens: ClassVar[set[str]] = set()

    def do_PUT(self) -> None:
        if self.path != "/latest/api/token" or TTL not in self.headers:
            self._say(400, "")
            return
        token = secrets.token_hex(16)
        self.tokens.add(token)
        self._say(200, token)

    def do_GET(self) -> None:
        if self.headers.get(TOKEN) not in self.tokens:
            self._say(401, "")
            return
        text = look_up(json.loads(self.file.read_text()), self.path)
        self._say(404 if text is None else 200, text or "")

    def log_message(self, format: str, *args: object) -> None:
        return None

    def _say(self, status: int, text: str) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(text.encode())))
        self.end_headers()
        self.wfile.write(text.encode())


if __name__ == "__main__":
    Metadata.file = Path(sys.argv[1])
    ThreadingHTTPServer((ADDRESS, PORT), Metadata).serve_forever()
