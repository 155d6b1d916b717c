"""The EC2 provider of one region; each purchase is of one type in one zone."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

from workbench.cloud.ec2 import baking, launch_template, removal
from workbench.cloud.ec2.api import Ec2Api, build_error, is_denied, of_fleet
from workbench.cloud.ec2.client import ATTEMPTS, Ec2Client
from workbench.cloud.ec2.cluster_resources import (
    POLL_SECONDS,
    RIGHTS_SECONDS,
    ClusterResources,
    ResourceRetries,
)
from workbench.cloud.ec2.description import ADDRESS_PRICE, AUTO, NodeSettings, extra_price
from workbench.cloud.ec2.image_lookup import Found, find_image
from workbench.cloud.ec2.inventory import machine
from workbench.cloud.ec2.network import (
    Network,
    WayOut,
    check_reach,
    find_network,
    last_words,
    own_ssh_source,
)
from workbench.cloud.ec2.offers import Ec2Offers
from workbench.cloud.ec2.preflight import try_all
from workbench.cloud.ec2.tags import OwnerTags, resource_tags
from workbench.core.fleet.cloud_errors import ErrorKind, asked_once, kind_for_fallbacks
from workbench.core.fleet.fallbacks import member
from workbench.core.fleet.model import Leftover, Machine, MachineState, Needs, Offer, Purchase
from workbench.core.fleet.node_provider import CLUSTER, NodeProvider, Sweep
from workbench.core.fleet.purchases import LAG_SECONDS
from workbench.core.node.findings import Finding
from workbench.core.units import hourly
from workbench.core.world.remote import Session
from workbench.errors import CloudError, MachineError

AT_ONCE = 8
# Prices are sums of decimals; a limit that is met exactly is met.
_ROUNDING = 1e-9


class Ec2Charges:
    """The charges beside the machines of one region; each image is looked up once."""

    def __init__(self, calls: Ec2Api, settings: Callable[[], NodeSettings], images: Found) -> None:
        self._calls = calls
        self._settings = settings
        self._images = images
        self._sizes: dict[tuple[str, bool], int] = {}

    def offers(self, offers: tuple[Offer, ...], network: Network) -> tuple[Offer, ...]:
        """Return the offers with the present charges beside each."""
        return tuple(self._offer(offer, network) for offer in offers)

    def machine(self, row: Mapping[str, Any]) -> float:
        """Return the $/h beside a machine of DescribeInstances; 0 for one that has ended."""
        if row["State"]["Name"] == "terminated":
            return 0.0
        size = self._size(str(row.get("ImageId") or ""), gpus=False)
        return extra_price(size, public=bool(row.get("PublicIpAddress")))

    def _offer(self, offer: Offer, network: Network) -> Offer:
        public = self._settings().public or network.places[offer.zone].public
        size = self._size(self._settings().image, gpus=bool(offer.gpus))
        return replace(
            offer,
            extra_price=extra_price(size, public=public),
            address_price=ADDRESS_PRICE if public else 0.0,
        )

    def _size(self, image: str, *, gpus: bool) -> int:
        """Return the GiB of a root volume; the default if the image cannot be looked up."""
        if (image, gpus) not in self._sizes:
            found = dict(self._images)  # a copy: showing prices must not choose the image
            try:
                size = find_image(self._calls, image, gpus=gpus, found=found).size
            except CloudError:
                return self._settings().disk
            self._sizes[image, gpus] = size
        return max(self._sizes[image, gpus], self._settings().disk)


class Ec2(NodeProvider):
    """EC2 in one region.

    Args:
        settings: Returns what the nodes have in common, which may change.
        endpoint: URL of the API, for a rehearsal; empty for AWS.
        owner: The owner of the clusters; resources of other owners are neither listed nor deleted.
            Empty for all owners, as for a sweep.
        must_reach: Without a network from which nodes accept ssh, this computer has to be in the
            nodes' own network before anything is bought; they then accept its private address.
        known: Earlier look-ups for the cluster, which are stored; see ``image_lookup`` and
            ``client``.
        attempts: As in ``Ec2Client``.
        types: A folder that caches the region's types for a day; None for no cache.
        clock: Returns epoch seconds.
        sleep: Waits.
    """

    def __init__(
        self,
        region: str,
        settings: Callable[[], NodeSettings] = NodeSettings,
        *,
        endpoint: str = "",
        owner: str = "",
        must_reach: bool = False,
        known: Found | None = None,
        attempts: int = ATTEMPTS,
        types: Path | None = None,
        clock: Callable[[], float] = time.time,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        known = {} if known is None else known
        self._calls = Ec2Client(region, endpoint, attempts, clock, known)
        self._catalogue = Ec2Offers(
            self._calls, clock, types, on_demand=lambda: settings().on_demand
        )
        self._patience = ResourceRetries(self._calls, clock, sleep)
        self._way = WayOut(region)
        self._foundation = ClusterResources(
            self._calls,
            self._catalogue,
            self._patience,
            settings,
            self._way,
            must_reach=must_reach,
            owner=owner,
            images=known,
        )
        self._settings = settings
        self._billed = Ec2Charges(self._calls, settings, known)
        self._owner = owner
        self._clock = clock
        self._lock = threading.Lock()
        self._bought: dict[str, Machine] = {}
        self._settled: frozenset[str] = frozenset()  # fleets that cannot be deleted

    def __repr__(self) -> str:
        return f"<Ec2 {self._calls.region}>"

    @property
    def region(self) -> str:
        """The region of all calls."""
        return self._calls.region

    def offers(self, needs: Needs, history_seconds: float = 0.0) -> tuple[Offer, ...]:
        """Return all types that fit, one offer for each zone that has them, cheapest first."""
        network = find_network(self._calls, self._settings().subnets)
        places = set(network.places)
        wished = places & set(needs.zones) if needs.zones else places
        found = self._catalogue.offers(needs, wished, history_seconds)
        return self._billed.offers(found, network)

    def permissions(self, purchase: Purchase) -> tuple[Finding, ...]:
        """Make a dry run of every call that ``purchase`` and its deletion need."""
        return try_all(self._calls, self._catalogue, purchase, self._settings(), self._way)

    def buy(self, purchase: Purchase, user_data: str, tags: Sequence[tuple[str, str]]) -> None:
        """Request the nodes; the same token again requests no more."""
        try:
            self._buy(purchase, user_data, tags)
        except CloudError as error:
            kind = kind_for_fallbacks(error.kind, placement=purchase.placement)
            if kind == error.kind:
                raise
            raise CloudError(error.what, kind, error.code, remedy=error.remedy) from error

    def _buy(self, purchase: Purchase, user_data: str, tags: Sequence[tuple[str, str]]) -> None:
        self._calls.keep_account()
        purchase = self._within_price(purchase)
        network = self._network()
        if self._settings().public:
            check_reach(self._calls, network, purchase.zone)
            if fault := self._way.fault(self._settings().ssh_sources):
                raise fault
        template = self._foundation.template(purchase, user_data, tags, network.vpc)
        request = launch_template.build_fleet(
            purchase,
            template,
            network.subnets,
            tags,
            self._owner,
            on_demand=self._settings().on_demand,
        )
        try:
            ids = self._repeat_until_granted(purchase, request)
        except CloudError as error:
            if error.code == "IdempotentParameterMismatch":
                self._has_come(purchase, error)
                return
            if error.kind != ErrorKind.THROTTLING:
                self._foundation.withdraw(purchase, template)
            raise
        self._remember(purchase, ids)

    def _within_price(self, purchase: Purchase) -> Purchase:
        """Return a purchase with the types whose price allows it: on demand, EC2 takes no maximum.

        Raises:
            CloudError: None does.
        """
        most = purchase.max_price
        if not most or not self._settings().on_demand:
            return purchase
        prices = {type_: self._catalogue.list_price(type_) for type_ in purchase.types}
        types = tuple(type_ for type_, price in prices.items() if price <= most + _ROUNDING)
        if types:
            return replace(purchase, types=types)
        type_ = min(prices, key=lambda one: prices[one])
        raise build_error(
            "MaxPriceTooLow",
            f"{type_} costs {hourly(prices[type_])} on demand, more than {hourly(most)}",
        )

    def _repeat_until_granted(
        self, purchase: Purchase, request: launch_template.Request
    ) -> list[str]:
        """Repeat the call until it is granted, or fails for good; return the machines' ids.

        EC2 remembers by its token a 200 in which all pools failed because a resource is not known
        yet. So the next call has the next token of the purchase's family. It follows from the token
        on record: a repeated purchase goes through the same answers.

        Raises:
            CloudError: Nothing was bought.
        """
        deadline, is_second = self._clock() + LAG_SECONDS, False
        for number in itertools.count():
            token = member(purchase.token, number)
            answer = self._patience.call("create_fleet", {**request, "ClientToken": token})
            ids = [id_ for part in answer.get("Instances", ()) for id_ in part["InstanceIds"]]
            if ids:
                return ids
            self._foundation.withdraw_fleet(answer.get("FleetId", ""))
            error = of_fleet(_errors(answer))
            if not error.is_early:
                if is_second or not self._patience.may_be_permitted(error.kind):
                    raise error
                is_second = True
            self._patience.wait(deadline, error, POLL_SECONDS if error.is_early else RIGHTS_SECONDS)
            # How long EC2 remembers such an answer is not documented.
            if self._is_there(purchase):
                break
        return []

    def _is_there(self, purchase: Purchase) -> bool:
        return any(one.token == purchase.token for one in self.machines(purchase.cluster))

    def ssh_source(self) -> str:
        """Return the networks from which nodes would accept ssh, as part of a sentence.

        Raises:
            CloudError: This computer's address is unknown, or EC2 does not answer.
        """
        wished = self._settings().ssh_sources
        if not wished:
            return own_ssh_source(self._network().vpc, self.region)
        sources = self._way.sources(wished)
        wide = any(not one.endswith("/32") for one in sources) and self._settings().public
        more = " (any computer there may try to log in, and needs the cluster's key)" * wide
        follows = " (this computer's address, followed when it changes)" * (AUTO in wished)
        return f"{' and '.join(sources)}{more}{follows}"

    def explain_silence(self, machines: Sequence[Machine]) -> str:
        """Return the likeliest cause why none of these running machines answers."""
        ssh_sources = self._settings().ssh_sources
        if ssh_sources and (why := self._way.explain(ssh_sources)):
            return why
        for one in machines:
            if words := last_words(self._calls, one.id):
                return (
                    "This computer's network lets ssh through, so look at the nodes: the console "
                    f"of {one.id} ends with: {words}."
                )
        return super().explain_silence(machines)

    def admit(self, cluster: str) -> None:
        """Update the ssh rules of the cluster's security group, if there is one."""
        self._foundation.admit(cluster, self._network().vpc)

    def machines(self, cluster: str = "") -> tuple[Machine, ...]:
        """Return the machines of ``cluster``, or all of ours, including recently ended ones."""
        rows = self._calls.rows(
            "ec2",
            "describe_instances",
            "Reservations.Instances",
            Filters=OwnerTags(cluster, self._owner).filters(),
        )
        public = self._settings().public
        listed = [self._machine(row, public=public) for row in rows]
        with self._lock:
            for one in listed:
                self._bought.pop(one.id, None)
        return (*listed, *self._find_unlisted(cluster))

    def end(self, ids: Sequence[str]) -> None:
        """Begin to end machines; ignores those that are gone already."""
        if not ids:
            return
        try:
            self._calls.call("ec2", "terminate_instances", InstanceIds=list(ids))
        except CloudError as error:  # EC2 ends no machine if one of them does not exist
            if not removal.GONE.search(error.code):
                raise
            for id_ in ids:
                self._end_one(id_)

    def leftovers(self, cluster: str = "", *, images: bool = False) -> tuple[Leftover, ...]:
        """Return all resources with our tags, without machines that have ended.

        Args:
            images: Whether baked images are listed too.
        """
        whose = OwnerTags(cluster, self._owner)
        listed = removal.leftovers(
            self._calls, whose, self._price, images=images, settled=self._settled
        )
        with self._lock:
            lagging = bool(self._bought)
        if not lagging:
            return listed
        self.machines(cluster)
        listed_ids = {left.id for left in listed}
        return (
            *listed,
            *(
                Leftover("instance", one.id, dict(one.tags)[CLUSTER], self._calls.region)
                for one in self._find_unlisted(cluster)
                if one.id not in listed_ids
            ),
        )

    def clean(self, cluster: str, *, images: bool = False) -> tuple[Leftover, ...]:
        """Delete what can be deleted of ``cluster`` now, in order.

        Args:
            images: Whether images that were baked from it are deleted too.
        """
        whose = OwnerTags(cluster, self._owner)
        self._settled |= removal.remove(self._calls, whose, self._clock(), images=images)
        return self.leftovers(cluster, images=images)

    def address(self, id_: str, cluster: str) -> str:
        """Return the address by which this computer reaches a node of ``cluster``."""
        row = baking.describe_node(self._calls, id_, cluster)
        return machine(row, public=self._settings().public).reach

    def open(self, machine: Machine) -> Session:
        """Raise an error: what was opened without a cluster has no keys of nodes.

        Raises:
            MachineError: Always.
        """
        raise MachineError(f"{self!r} has no keys of {machine.id}", "open it for a cluster.")

    def bake_from(self, session: Session, id_: str, name: str, cluster: str) -> str:
        """Begin to make an image of the node of a session; return the image's id."""
        tags = baking.image_tags(cluster, self._owner)
        return baking.bake(self._calls, session, id_, name, tags, self._patience)

    def image(self, id_: str) -> baking.ImageProgress:
        """Return the progress of an image."""
        return baking.progress(self._calls, id_, self._patience)

    def discard(self, image: str) -> tuple[str, ...]:
        """Delete a baked image with its snapshots, and return their ids."""
        return baking.discard(self._calls, image)

    def _network(self) -> Network:
        return find_network(self._calls, self._settings().subnets)

    def _has_come(self, purchase: Purchase, error: CloudError) -> None:
        """Wait until an earlier purchase with this token and other parameters is listed.

        Raises:
            CloudError: Nothing was bought, so the next fallback is due.
        """
        deadline = self._clock() + LAG_SECONDS
        nothing = CloudError(error.what, ErrorKind.CAPACITY, error.code, remedy=error.remedy)
        while not self._is_there(purchase):
            self._patience.wait(deadline, nothing)

    def _remember(self, purchase: Purchase, ids: Sequence[str]) -> None:
        tags = resource_tags(OwnerTags(purchase.cluster, self._owner), purchase.token)
        with self._lock:
            for id_ in ids:
                self._bought[id_] = Machine(
                    id_,
                    MachineState.PENDING,
                    launched=self._clock(),
                    token=purchase.token,
                    tags=tags,
                )

    def _find_unlisted(self, cluster: str) -> tuple[Machine, ...]:
        """Return the machines that were bought and are not listed yet; DescribeInstances lags."""
        now = self._clock()
        with self._lock:
            self._bought = {
                id_: one for id_, one in self._bought.items() if now - one.launched < LAG_SECONDS
            }
            return tuple(
                one for one in self._bought.values() if cluster in ("", dict(one.tags)[CLUSTER])
            )

    def _end_one(self, id_: str) -> None:
        with self._lock:
            known = id_ in self._bought
        try:
            new = ("InvalidInstanceID.NotFound",) if known else ()
            self._patience.call("terminate_instances", {"InstanceIds": [id_]}, new)
        except CloudError as error:
            if not removal.GONE.search(error.code):
                raise

    def _machine(self, row: Mapping[str, Any], *, public: bool) -> Machine:
        kind = self._catalogue.kind(row["InstanceType"])
        price = 0.0 if row["State"]["Name"] == "terminated" else self._price(row)
        found = machine(row, price, kind.slots, public, kind.network)
        return replace(found, extra_price=self._billed.machine(row))

    def _price(self, row: Mapping[str, Any]) -> float:
        if row.get("InstanceLifecycle") != "spot":
            return self._catalogue.list_price(row["InstanceType"])
        return self._catalogue.price(row["InstanceType"], row["Placement"]["AvailabilityZone"])


def regions(region: str, endpoint: str = "") -> tuple[str, ...]:
    """Return the names of the account's regions.

    Raises:
        CloudError: They cannot be listed.
    """
    rows = Ec2Client(region, endpoint).rows("ec2", "describe_regions", "Regions")
    return tuple(sorted(row["RegionName"] for row in rows))


def sweep(region: str, endpoint: str = "", only: Sequence[str] = ()) -> Sweep:
    """Return all resources with our tags in all regions of the account, baked images too.

    Args:
        region: Any region; it is used to list the others.
        only: Regions to search instead of all.

    Raises:
        CloudError: The regions cannot be listed.
    """
    names = tuple(only) or regions(region, endpoint)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        found = list(pool.map(lambda name: _sweep_region(name, endpoint), names))
    return Sweep(
        tuple(left for one in found for left in one.left),
        tuple(failure for one in found for failure in one.refused),
        tuple(region for one in found for region in one.denied),
        len(names),
    )


def _sweep_region(region: str, endpoint: str) -> Sweep:
    try:
        return Sweep(Ec2(region, endpoint=endpoint).leftovers(images=True), ())
    except CloudError as error:
        if is_denied(error):
            return Sweep((), (), (region,))
        return Sweep((), ((region, str(asked_once(error))),))


def _errors(answer: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield code and message of each pool in a 200 without machines."""
    for error in answer.get("Errors", ()):
        yield error.get("ErrorCode") or "", error.get("ErrorMessage") or ""
