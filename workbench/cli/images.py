"""The commands that make and delete images."""

from __future__ import annotations

import re
import time
from collections.abc import Callable

import click

from workbench.cli.consent import confirm
from workbench.cli.terminal import show_wait
from workbench.core.cluster.model import ClusterWish, check_cluster_name
from workbench.core.fleet.model import NodeState
from workbench.core.fleet.provider import provider_option
from workbench.core.quote import quote_value
from workbench.errors import ClusterError, InputError, StateError, WorkbenchError
from workbench.requests.cloud_queries import ask_bake, ask_baked, ask_discard
from workbench.requests.cluster import known_wish
from workbench.store import Store
from workbench.view.text import duration

POLL_SECONDS = 5.0
# A large disk takes about 15 minutes; after this limit the command can be repeated.
WAIT_SECONDS = 3600.0
PENDING, AVAILABLE = "pending", "available"
_NAME = re.compile(r"[A-Za-z0-9][\w .-]{2,79}", re.ASCII)
_IMAGE = re.compile(r"ami-[0-9a-f]{8,17}")


def check_image_name(name: str) -> str:
    """Check the name of an image by the rules of EC2, with ASCII letters only."""
    if not _NAME.fullmatch(name):
        raise InputError(
            f"{quote_value(name)} is not a valid image name",
            "use 3 to 80 of A-Z, a-z, 0-9, spaces and _ . -",
        )
    return name


def bake(node: str, name: str, yes: bool, no_wait: bool, cluster: str) -> None:
    """Make an image of a node."""
    began = time.time()
    called = check_image_name(name) if name else f"workbench-{time.strftime('%Y%m%d-%H%M%S')}"
    with Store() as store:
        wish, chosen = _node_of(store, check_cluster_name(cluster), node)
    click.echo(wish.fleet.place.image_terms(wish.fleet))
    question = f"Make an image of {chosen}? You cannot log in to the node meanwhile."
    confirm(question, "nothing was done", yes=yes)
    region = wish.fleet.region
    made = ask_bake(wish, chosen, called)
    place = provider_option(wish.fleet.place)
    use = f"start nodes from it with `workbench up {place} --region {region} --image {made}`"
    if no_wait:
        click.echo(f"{made} is being made in {region}; once it is available, {use}.")
        return
    with show_wait(f"Image {made}", lines=True, shown_by="workbench sweep-leaks") as say:
        try:
            _wait(region, made, say)
        except (KeyboardInterrupt, WorkbenchError):
            click.echo(
                f"{made} may still be completed and billed; delete it with `workbench image delete "
                f"{made} --region {region}`.",
                err=True,
            )
            raise
    click.echo(
        f"{made} is available in {region}, after {duration(time.time() - began)}; {use}, and "
        f"delete it with `workbench image delete {made} --region {region}`."
    )


def delete(image: str, region: str, yes: bool) -> None:
    """Delete an image and its snapshots."""
    if not _IMAGE.fullmatch(image):
        raise InputError(
            f"{image!r} is not the id of an image", "list yours with `workbench sweep-leaks`."
        )
    confirm(f"Delete {image} and its snapshots?", "nothing was deleted", yes=yes)
    snapshots = ask_discard(region, image)
    click.echo(f"Deleted {', '.join((image, *snapshots))}.")


def _wait(region: str, image: str, say: Callable[[str], None]) -> None:
    """Wait until an image is available, and show its progress.

    Raises:
        ClusterError: It failed, or took too long.
    """
    deadline = time.monotonic() + WAIT_SECONDS
    while True:
        state, percent = ask_baked(region, image)
        if state == AVAILABLE:
            return
        if state != PENDING:
            raise ClusterError(
                f"{image} failed ({state})",
                f"`workbench image delete {image}` deletes what "
                "is there of it, then bake it again.",
            )
        if time.monotonic() > deadline:
            raise ClusterError(
                f"{image} is still being made ({percent} %)",
                "find it with `workbench sweep-leaks`, "
                "and use it with `workbench up --image` once it is available.",
            )
        say(f"{percent} %")
        time.sleep(POLL_SECONDS)


def _node_of(store: Store, cluster: str, node: str) -> tuple[ClusterWish, str]:
    """Return the cluster and the node to make an image of."""
    wish = known_wish(store, cluster)
    if not wish.fleet.place.bakes:
        raise StateError(
            f"Cluster {cluster!r} is {wish.fleet.place.located}, and no images are made there."
        )
    if runs := store.list_unfinished(cluster):
        raise StateError(
            f"Run {runs[0].wish.name!r} is running, and its files would be in the image",
            "wait for it, or stop it.",
        )
    there = [
        one
        for one in store.fleets.nodes(cluster)
        if one.state in (NodeState.READY, NodeState.JOINED)
    ]
    there.sort(key=lambda one: not one.head)
    found = [one.id for one in there if node in ("", one.id)]
    if not found:
        known = ", ".join(one.id for one in there) or "none"
        which = f"no node {node!r}" if node else "no node"
        raise StateError(f"Cluster {cluster!r} has {which} that is ready", f"it has: {known}.")
    return wish, found[0]
