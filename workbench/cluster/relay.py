"""Start MPI's daemons on hosts that cannot log in to each other, in the sessions of this machine.

mpiexec on the first host calls an agent for each other host, as it would call ssh. The agent leaves
the command in a file of the world's folder; this machine takes it from there, runs it in its own
session with that host, and leaves the exit status. So hosts need no keys of each other, and may be
reached through other ports, users and jump hosts than they would see.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

from workbench.core.quote import one_line
from workbench.core.world.remote import Session
from workbench.errors import MachineError

log = logging.getLogger("workbench.supervisor")

RELAY = "relay"
"""The file of a world's folder with the agent."""

RELAY_SECONDS = 60.0
LOOK_SECONDS = 5.0
MOST_AT_ONCE = 32
_AGENT = """\
umask 077
cd -- {folder} || exit 1
host=$1
shift
# mpiexec finds itself behind links, at a path that other hosts need not have.
own=$(cd -- {prefix} && pwd -P)
printf '%s' "$*" | sed "s|$own|{prefix}|g" > "$host.new" || exit 1
mv -- "$host.new" "$host.wanted" || exit 1
left={tries}
until [ -e "$host.status" ]; do
  [ "$left" -gt 0 ] || exit 1
  left=$((left - 1)); sleep 0.05
done
read -r status < "$host.status"
exit "$status"
"""
# Prints the first host that waits, and its command; it waits for one itself.
_TAKE = """\
cd -- "$1" || exit 1
left=$2
while [ "$left" -gt 0 ]; do
  for one in *.wanted; do
    [ -e "$one" ] || continue
    echo "${one%.wanted}"
    cat -- "$one"
    mv -- "$one" "${one%.wanted}.taken"
    exit 0
  done
  [ -e pid ] || exit 1
  left=$((left - 1)); sleep 0.05
done
"""
# The daemon stays until its world ends, also without us. One that fails does so at once.
_DETACH = """\
said=$(mktemp) || exit 1
setsid sh -c "$1" < /dev/null > "$said" 2>&1 &
left=8
while kill -0 $! 2> /dev/null; do
  [ "$left" -gt 0 ] || { rm -f -- "$said"; exit 0; }
  left=$((left - 1)); sleep 0.05
done
wait $!
status=$?
tail -n 3 -- "$said" >&2
rm -f -- "$said"
exit "$status"
"""
_ANSWER = 'umask 077; echo "$3" > "$1/$2.new" && mv -- "$1/$2.new" "$1/$2.status"'


def relay_script(folder: str, prefix: str) -> str:
    """Return the agent's text.

    Args:
        folder: That of the world, absolute.
        prefix: Of the environment, at the path that is the same on every host.
    """
    return _AGENT.format(folder=folder, prefix=prefix, tries=int(RELAY_SECONDS / 0.05))


def relay(head: Session, folder: str, others: Mapping[str, Session | None]) -> None:
    """Run what mpiexec on the first host wants on the others, until each has had its command.

    Args:
        folder: That of the world on the first host, absolute.
        others: The sessions with the other hosts, by the address that mpiexec uses.

    Raises:
        MachineError: The session with the first host is lost.
    """
    waiting = {address: session for address, session in others.items() if session is not None}
    deadline = time.monotonic() + RELAY_SECONDS
    with ThreadPoolExecutor(MOST_AT_ONCE, "relay") as pool:
        while waiting and time.monotonic() < deadline:
            command = ["sh", "-c", _TAKE, "sh", folder, f"{LOOK_SECONDS / 0.05:.0f}"]
            done = head.run(command, seconds=LOOK_SECONDS + RELAY_SECONDS)
            if done.status:
                return  # the world has ended, and says why
            address, _, wanted = done.output.partition("\n")
            # What the first host says is not trusted: each host gets one command, if it is ours.
            if session := waiting.pop(address, None):
                pool.submit(_run, head, folder, address, session, wanted)


def _run(head: Session, folder: str, address: str, session: Session, command: str) -> None:
    try:
        done = session.run(["sh", "-c", _DETACH, "sh", command], seconds=RELAY_SECONDS)
        if done.status:
            log.warning("%s did not start MPI's daemon: %s", address, one_line(done.errors))
        status = done.status
    except MachineError as error:
        log.warning("%s", error)
        status = 1
    try:
        head.run(["sh", "-c", _ANSWER, "sh", folder, address, f"{status}"])
    except MachineError as error:
        log.warning("%s", error)
