"""What machines without a network may fetch, and what is fetched once for all of them."""

from __future__ import annotations

import threading
import urllib.error
import urllib.request
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from tests.rehearsal.bare.mirror import Mirror

HERE = "127.0.0.1"


class Registry(BaseHTTPRequestHandler):
    """Says which path it was asked for."""

    def do_GET(self) -> None:
        text = self.path.encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, format: str, *args: object) -> None:
        return None


def test_packages_are_kept_indices_are_not_and_all_else_is_refused(tmp_path: Path) -> None:
    with (
        HTTPServer((HERE, 0), Registry) as registry,
        Mirror(HERE, {HERE}, tmp_path / "kept", {}) as mirror,
    ):
        thread = threading.Thread(target=registry.serve_forever)
        thread.start()
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({"http": mirror.url}))
        start = f"http://{HERE}:{registry.server_port}"

        def get(url: str) -> bytes:
            with opener.open(url, timeout=10) as answer:
                text: bytes = answer.read()
                return text

        try:
            first = get(f"{start}/pool/a.deb"), get(f"{start}/InRelease")
        finally:
            registry.shutdown()
            registry.server_close()
            thread.join()

        assert [text[-6:] for text in first] == [b"/a.deb", b"elease"]
        assert get(f"{start}/pool/a.deb") == first[0]
        with pytest.raises(urllib.error.HTTPError, match="502"):
            get(f"{start}/InRelease")
        with pytest.raises(urllib.error.HTTPError, match="403"):
            get("http://elsewhere.invalid/pool/b.deb")
        assert mirror.refused == ["elsewhere.invalid"]
