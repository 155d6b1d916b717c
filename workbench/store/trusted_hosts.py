"""Store the host keys that a person confirmed for a cluster."""

from __future__ import annotations

from collections.abc import Iterable

from workbench.store.paths import cluster_directory, write_private

NAME = "known_hosts"


def trusted_lines(cluster: str) -> tuple[str, ...]:
    """Return the confirmed lines of known_hosts for ``cluster``."""
    try:
        text = (cluster_directory(cluster) / NAME).read_text(encoding="utf-8")
    except FileNotFoundError:
        return ()
    return tuple(filter(None, text.splitlines()))


def trust(cluster: str, lines: Iterable[str]) -> None:
    """Store confirmed lines of known_hosts; a new line replaces that of the same host.

    Raises:
        MachineError: They cannot be written.
    """
    kept = {line.split()[0]: line for line in (*trusted_lines(cluster), *lines)}
    text = "".join(f"{line}\n" for line in kept.values())
    write_private(cluster_directory(cluster) / NAME, text)
