"""The commands about images that nodes boot quicker from."""

from __future__ import annotations

import re
import time
from collections.abc import Callable

import click

from workbench.cli.consent import confirm
from workbench.cli.options import cluster_option, no_wait_option, yes_option
from workbench.cli.terminal import waiting
from workbench.core.cluster import ClusterWish, check_cluster_name
from workbench.core.cost import DISK_GIB, MONTH_HOURS, SNAPSHOT_PRICE
from workbench.core.fleet import NodeState, Place
from workbench.core.run import check_run_name
from workbench.errors import ClusterError, InputError, StateError, Unknown
from workbench.store import Store
from workbench.store.asking import ask_bake, ask_baked, ask_discard
from workbench.view.phrases import dollars, duration

POLL_SECONDS = 5.0
# A large disk takes a quarter of an hour; after that it may still come, and is looked for anew.
WAIT_SECONDS = 3600.0
PENDING, AVAILABLE = "pending", "available"
_IMAGE = re.compile(r"ami-[0-9a-f]{8,17}")


@click.group()
def image() -> None:
    """Make images that nodes boot quicker from, and delete them."""


@image.command()
@click.option("--node", default="", metavar="ID", help="Which node; the head, if not.")
@click.option("--name", default="", help="What to call the image.")
@yes_option
@no_wait_option
@cluster_option
def bake(node: str, name: str, yes: bool, no_wait: bool, cluster: str) -> None:
    """Make an image of a node that is set up, without its keys, lease and logs.

    The node goes on. Where there is none: `workbench up --ec2 --nodes 1 --cluster bake` starts
    one, and `workbench down --cluster bake` ends it.
    """
    began = time.time()
    called = check_run_name(name) if name else f"workbench-{time.strftime('%Y%m%d-%H%M%S')}"
    with Store() as store:
        wish, chosen = _node_of(store, check_cluster_name(cluster), node)
    click.echo(_terms())
    if not yes:
        confirm(
            f"Make an image of {chosen}, to which nobody can log in meanwhile?",
            "Nobody said yes, and nothing was done; answer at a terminal, or add --yes.",
        )
    region = wish.fleet.region
    made = ask_bake(wish, chosen, called)
    use = f"`workbench up --ec2 --region {region} --image {made}` starts nodes from it"
    if no_wait:
        click.echo(f"{made} is being made in {region}; once it is available, {use}.")
        return
    with waiting(f"Image {made}", lines=True, shown_by="workbench sweep-leaks") as say:
        _wait(region, made, say)
    click.echo(
        f"{made} is available in {region}, after {duration(time.time() - began)}; {use}, and "
        f"`workbench image delete {made} --region {region}` deletes it with its snapshot."
    )


@image.command()
@click.argument("image", metavar="AMI")
@click.option("--region", default="", metavar="NAME", help="Where it is; AWS's own, if not said.")
@yes_option
def delete(image: str, region: str, yes: bool) -> None:
    """Delete an image that was baked, and the snapshots that it is made of."""
    if not _IMAGE.fullmatch(image):
        raise InputError(
            f"{image!r} is no image's id; `workbench sweep-leaks` lists what was baked."
        )
    if not yes:
        confirm(
            f"Delete {image} and its snapshots?",
            "Nobody said yes, and nothing was deleted; answer at a terminal, or add --yes.",
        )
    snapshots = ask_discard(region, image)
    click.echo(f"Deleted {', '.join((image, *snapshots))}.")


def _terms() -> str:
    month = SNAPSHOT_PRICE * MONTH_HOURS
    return (
        f"An image is kept as a snapshot at about {dollars(month)} a GiB and month: at most "
        f"{dollars(month * DISK_GIB)} a month for a disk of {DISK_GIB} GiB, until it is deleted."
    )


def _wait(region: str, image: str, say: Callable[[str], None]) -> None:
    """Wait until an image is available, and say how far it is.

    Raises:
        ClusterError: It failed, or takes very long.
    """
    deadline = time.monotonic() + WAIT_SECONDS
    while True:
        state, percent = ask_baked(region, image)
        if state == AVAILABLE:
            return
        if state != PENDING:
            raise ClusterError(
                f"{image} came to nothing ({state}); `workbench image delete {image}` deletes what "
                "is there of it, then bake it anew."
            )
        if time.monotonic() > deadline:
            raise ClusterError(
                f"{image} is still being made ({percent} %); `workbench sweep-leaks` lists it, and "
                "`workbench up --image` takes it once it is available."
            )
        say(f"{percent} %")
        time.sleep(POLL_SECONDS)


def _node_of(store: Store, cluster: str, node: str) -> tuple[ClusterWish, str]:
    """Return the cluster and the node to make an image of."""
    wish = store.cluster_wish(cluster)
    if wish is None:
        raise Unknown(f"There is no cluster called {cluster!r}; start it first.")
    if wish.fleet.place is not Place.EC2:
        raise StateError(f"Cluster {cluster!r} has no nodes on EC2, of which images are made.")
    if runs := store.unfinished(cluster):
        raise StateError(
            f"Run {runs[0].wish.name!r} is on, and what it writes would be in the image; wait for "
            "it, or stop it."
        )
    there = [
        one for one in store.nodes(cluster) if one.state in (NodeState.READY, NodeState.JOINED)
    ]
    there.sort(key=lambda one: not one.head)
    found = [one.id for one in there if node in ("", one.id)]
    if not found:
        known = ", ".join(one.id for one in there) or "none"
        which = f"no node {node!r}" if node else "no node"
        raise StateError(f"Cluster {cluster!r} has {which} that is set up; there are: {known}.")
    return wish, found[0]
