"""Explain why a node's set-up failed, from the output of apt, pip and uv."""

from __future__ import annotations

import re

# How apt, pip, uv and git report an unreachable host, with its name.
_UNREACHED = tuple(
    re.compile(pattern)
    for pattern in (
        r"Temporary failure resolving '([\w.-]+)'",
        r"Could not (?:resolve host:|resolve|connect to) '?([\w.-]+)",
        r"(?:Cannot initiate the connection to|Connection to|connect to) ([\w.-]+):\d+",
        r"HTTPS?Connection(?:Pool)?\(host='([\w.-]+)'",
        r"error sending request for url \(\w+://([\w.-]+)",
        r"(?:Request failed after|Failed to (?:fetch|download)).*\w+://([\w.-]+)",
    )
)
# pip of Debian 12 does not name the host.
_NAMELESS = re.compile(r"NewConnectionError|ConnectTimeoutError|Name or service not known")
_INDEX = "the package index"
_TRACED = "+ "  # written by sh -x
_REMEDY = (
    "check that its subnet has a route there (an internet gateway and a public address, or a NAT "
    "gateway) and that no firewall blocks it, or bake an image that has all"
)


def find_unreached(text: str) -> str:
    """Return the unreachable host that a program's output names; empty if there is none."""
    found = [(match.start(), match.group(1)) for one in _UNREACHED for match in one.finditer(text)]
    return max(found)[1] if found else _INDEX if _NAMELESS.search(text) else ""


def not_set_up(address: str, text: str) -> str:
    """Return the error sentence for a node whose image could not be set up.

    Args:
        text: The end of the output.
    """
    if host := find_unreached(text):
        return f"{address} was not set up: it could not reach {host}; {_REMEDY}."
    return f"{address} was not set up: {_last(text)}"


def not_installed(address: str, text: str) -> str:
    """Return the error sentence for a node on which this environment could not be installed."""
    if host := find_unreached(text):
        what = f"{address} could not install this environment, because {host} is unreachable"
        return f"{what}; {_REMEDY}."
    return (
        f"{address} could not install this environment ({_last(text)}); install from an index what "
        "is not there, or bake an image."
    )


def _last(text: str) -> str:
    lines = [line for line in text.strip().splitlines() if not line.startswith(_TRACED)]
    return lines[-1] if lines else "it gave no output"
