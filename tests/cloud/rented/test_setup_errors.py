from __future__ import annotations

import pytest

from workbench.cloud.rented.equipment import find_unreached, not_installed, not_set_up

APT = """\
Err:1 http://deb.example/debian bookworm InRelease
  Temporary failure resolving 'deb.example'
E: Package 'python3-venv' has no installation candidate
+ left=0
+ exit 1
"""
APT_REFUSED = (
    "  Could not connect to deb.example:80 (10.0.0.9). - connect (111: Connection refused)\n"
)
APT_SLOW = "W: Failed to fetch http://deb.example/dists/x  Unable to connect to deb.example:http:\n"
PIP = (
    "WARNING: Retrying (Retry(total=0)) after connection broken by 'NewConnectionError("
    "\"HTTPSConnection(host='index.example', port=443): Failed to establish a new connection\")'\n"
    "ERROR: Could not find a version that satisfies the requirement uv==1 (from versions: none)\n"
)
PIP_POOL = "HTTPSConnectionPool(host='index.example', port=443): Max retries exceeded\n"
UV = """\
error: Request failed after 3 retries in 7.2s
  cause: Failed to fetch: `https://index.example/simple/numpy/`
  cause: error sending request for url (https://index.example/simple/numpy/)
  cause: dns error
"""
PIP_23 = """\
WARNING: Retrying (Retry(total=0)) after connection broken by 'NewConnectionError('<Connection
object at 0x7f>: [Errno -2] Name or service not known')': /simple/uv/
ERROR: No matching distribution found for uv==1
"""
GIT = "fatal: unable to access 'https://git.example/r/': Could not resolve host: git.example\n"


@pytest.mark.parametrize(
    ("text", "host"),
    [
        (APT, "deb.example"),
        (APT_REFUSED, "deb.example"),
        (APT_SLOW, "deb.example"),
        (PIP, "index.example"),
        (PIP_23, "the package index"),
        (PIP_POOL, "index.example"),
        (UV, "index.example"),
        (GIT, "git.example"),
        ("error: no version of numpy==99", ""),
        ("", ""),
    ],
)
def test_the_host_that_could_not_be_reached_is_found(text, host):
    assert find_unreached(text) == host


def test_the_sentence_says_which_host_and_what_to_see_to():
    said = not_set_up("10.0.0.4", APT)

    assert said.startswith("10.0.0.4 was not set up: it could not reach deb.example; check that")
    assert "because index.example is unreachable; check" in not_installed("10.0.0.4", UV)


def test_without_such_a_host_the_last_line_is_reported_and_no_trace_of_a_script():
    assert not_set_up("10.0.0.4", "E: no space left\n+ exit 1\n+ touch failed\n").endswith(
        "set up: E: no space left"
    )
    assert "(no such version)" in not_installed("10.0.0.4", "no such version\n")
    assert "it gave no output" in not_set_up("10.0.0.4", "+ exit 1\n")
