"""Lend nodes from EC2's spot market: one region, one zone and one type for each purchase."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from types import TracebackType
from typing import Any

import boto3
from botocore import exceptions
from botocore.config import Config
from botocore.parsers import ResponseParserError

from workbench.cloud import baking, launch, removal
from workbench.cloud.calls import refused
from workbench.cloud.catalogue import Catalogue
from workbench.cloud.doors import find_door
from workbench.cloud.foundation import Foundation, Patience, Settings
from workbench.cloud.inventory import machine
from workbench.cloud.preflight import find_network, try_all
from workbench.cloud.tags import CLUSTER, Whose, borne
from workbench.core.cost import DISK_GIB
from workbench.core.diagnosis import Finding
from workbench.core.doors import is_public
from workbench.core.fleet import Leftover, Machine, MachineState, Needs, Offer, Purchase
from workbench.core.orders import LAG_SECONDS
from workbench.core.refusal import Kind, classify
from workbench.core.session import Session
from workbench.errors import CloudRefused

AT_ONCE = 8
# It tells each time where it found its settings.
logging.getLogger("botocore").setLevel(logging.WARNING)
ATTEMPTS = 5


class Connection:
    """One region of AWS, through boto3; every error is mapped here, once.

    Args:
        endpoint: Where the API is, for a rehearsal; empty for AWS.
        attempts: Calls in all, further and further apart, while it asks for patience.
    """

    def __init__(self, region: str, endpoint: str = "", attempts: int = ATTEMPTS) -> None:
        self.region = region
        self._attempts = attempts
        self.endpoint = endpoint
        self._clients: dict[str, Any] = {}
        self._session: Any = None
        self._lock = threading.Lock()

    def call(self, service: str, operation: str, **request: Any) -> dict[str, Any]:
        """Make one call."""
        with _Mapped():
            answer: dict[str, Any] = getattr(self.client(service), operation)(**request)
            return answer

    def rows(
        self, service: str, operation: str, path: str, **request: Any
    ) -> Iterator[dict[str, Any]]:
        """Give the entries of all pages."""
        with _Mapped():
            client = self.client(service)
            if client.can_paginate(operation):
                pages = client.get_paginator(operation).paginate(**request)
            else:
                pages = [getattr(client, operation)(**request)]
            for page in pages:
                yield from _entries(page, path.split("."))

    def client(self, service: str) -> Any:
        """Return boto3's client, the same one each time."""
        with self._lock:  # two threads may share a client, but not a session that makes one
            if service not in self._clients:
                self._session = self._session or boto3.Session()
                self._clients[service] = self._session.client(
                    service,
                    region_name=self.region,
                    endpoint_url=self.endpoint or None,
                    config=Config(
                        retries={"mode": "standard", "total_max_attempts": self._attempts},
                        connect_timeout=10,
                        read_timeout=60,
                        user_agent_extra="workbench",
                    ),
                )
            return self._clients[service]


class Ec2:
    """EC2 in one region, as a ``Cloud``.

    Args:
        endpoint: Where the API is, for a rehearsal; empty for AWS.
        public_key: The cluster's user key; empty where none is needed, as to sweep.
        owner: Who keeps the clusters; of nobody else's anything is listed or deleted. Empty for
            everybody's, as to sweep.
        doors: Networks whose ssh is let in, such as ``10.0.0.5/32`` for this computer; or what
            returns them, as they are when they are needed.
        must_reach: Whether, without any, this computer has to be in the cluster's network for
            anything to be bought; its own private address is then let in.
        profile: Instance profile of the nodes' role; empty for nodes without any right; or what
            returns it.
        image: An image's id; empty for one that is looked up; or what returns it.
        disk: GiB of each root volume.
        attempts: As of ``Connection``.
        clock: Gives epoch seconds.
        sleep: Waits.
    """

    def __init__(
        self,
        region: str,
        *,
        endpoint: str = "",
        public_key: str = "",
        owner: str = "",
        doors: Sequence[str] | Callable[[], Sequence[str]] = (),
        must_reach: bool = False,
        profile: str | Callable[[], str] = "",
        image: str | Callable[[], str] = "",
        disk: int = DISK_GIB,
        attempts: int = ATTEMPTS,
        clock: Callable[[], float] = time.time,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._calls = Connection(region, endpoint, attempts)
        self._catalogue = Catalogue(self._calls, clock)
        self._patience = Patience(self._calls, clock, sleep)
        self._foundation = Foundation(
            self._calls,
            self._catalogue,
            self._patience,
            Settings(
                public_key,
                doors if callable(doors) else lambda: doors,
                must_reach,
                profile if callable(profile) else lambda: profile,
                image if callable(image) else lambda: image,
                disk,
                owner,
            ),
        )
        self._owner = owner
        self._clock = clock
        self._lock = threading.Lock()
        self._bought: dict[str, Machine] = {}

    def __repr__(self) -> str:
        return f"<Ec2 {self._calls.region}>"

    def offers(self, needs: Needs, history_seconds: float = 0.0) -> tuple[Offer, ...]:
        """Return all types that fit, one for each zone that has them, cheapest first."""
        places = set(find_network(self._calls).subnets)
        wished = places & set(needs.zones) if needs.zones else places
        return self._catalogue.offers(needs, wished, history_seconds)

    def permissions(self, purchase: Purchase) -> tuple[Finding, ...]:
        """Try every call that ``purchase`` and its deletion need, without doing anything."""
        known = self._foundation.settings
        return try_all(self._calls, self._catalogue, purchase, known.image(), known.profile())

    def buy(self, purchase: Purchase, user_data: str, tags: Sequence[tuple[str, str]]) -> None:
        """Ask for the nodes; the same token again asks for nothing more."""
        network = find_network(self._calls)
        template = self._foundation.template(purchase, user_data, tags, network.vpc)
        request = launch.fleet(purchase, template, network.subnets, tags, self._owner)
        try:
            answer = self._patience.call("create_fleet", request)
        except CloudRefused as error:
            if error.code == "IdempotentParameterMismatch":
                self._has_come(purchase, error)
                return
            if error.kind != Kind.THROTTLING:
                self._foundation.withdraw(template)
            raise
        ids = [id_ for part in answer.get("Instances", ()) for id_ in part["InstanceIds"]]
        if not ids:
            self._foundation.withdraw(template, answer.get("FleetId", ""))
            raise _nothing(answer)
        self._remember(purchase, ids)

    def door(self, wished: str = "") -> str:
        """Return the network from which nodes would let in ssh.

        Args:
            wished: A network; empty for this computer, where it is in that of the nodes.

        Raises:
            InputError: What is wished is no such network.
            CloudRefused: It cannot be said, or the place does not answer.
        """
        return find_door(self._calls, wished)

    def admit(self, cluster: str) -> None:
        """Let in who is to be let in by now, where the cluster has anything yet."""
        self._foundation.admit(cluster, find_network(self._calls).vpc)

    def machines(self, cluster: str = "") -> tuple[Machine, ...]:
        """Return the machines of ``cluster``, or all that are ours, also those just gone."""
        rows = self._calls.rows(
            "ec2",
            "describe_instances",
            "Reservations.Instances",
            Filters=Whose(cluster, self._owner).filters(),
        )
        public = is_public(self._foundation.settings.doors())
        listed = [self._machine(row, public=public) for row in rows]
        with self._lock:
            for one in listed:
                self._bought.pop(one.id, None)
        return (*listed, *self._unlisted(cluster))

    def end(self, ids: Sequence[str]) -> None:
        """Begin to end machines; one that is gone already is as good."""
        if not ids:
            return
        try:
            self._calls.call("ec2", "terminate_instances", InstanceIds=list(ids))
        except CloudRefused as error:  # one that is not there keeps EC2 from ending any
            if not removal.GONE.search(error.code):
                raise
            for id_ in ids:
                self._end_one(id_)

    def leftovers(self, cluster: str = "", *, images: bool = False) -> tuple[Leftover, ...]:
        """Return all that bears our tags, machines that are gone left out.

        Args:
            images: Whether images that were baked are told too.
        """
        whose = Whose(cluster, self._owner)
        listed = removal.leftovers(self._calls, whose, self._price, images=images)
        with self._lock:
            lagging = bool(self._bought)
        if not lagging:
            return listed
        self.machines(cluster)
        told = {left.id for left in listed}
        return (
            *listed,
            *(
                Leftover("instance", one.id, dict(one.tags)[CLUSTER], self._calls.region)
                for one in self._unlisted(cluster)
                if one.id not in told
            ),
        )

    def clean(self, cluster: str, *, images: bool = False) -> tuple[Leftover, ...]:
        """Delete what belongs to ``cluster``, in order, as far as it goes now.

        Args:
            images: Whether images that were baked from it go too.
        """
        whose = Whose(cluster, self._owner)
        removal.remove(self._calls, whose, self._clock(), images=images)
        return self.leftovers(cluster, images=images)

    def address(self, id_: str, cluster: str) -> str:
        """Return how this computer reaches a node of ``cluster``."""
        row = baking.found_node(self._calls, id_, cluster)
        return machine(row, public=is_public(self._foundation.settings.doors())).reach

    def bake(self, session: Session, id_: str, name: str, cluster: str) -> str:
        """Begin to make an image of a node that is set up; return the image's id."""
        tags = baking.image_tags(cluster, self._owner)
        return baking.bake(self._calls, session, id_, name, tags)

    def image(self, id_: str) -> baking.Progress:
        """Return how far an image is."""
        return baking.progress(self._calls, id_)

    def discard(self, image: str) -> tuple[str, ...]:
        """Delete a baked image with its snapshots, and return their ids."""
        return baking.discard(self._calls, image)

    def _has_come(self, purchase: Purchase, error: CloudRefused) -> None:
        """Wait until what was bought with this token before, in other words, is listed.

        Raises:
            CloudRefused: It came to nothing, so the next rung is due.
        """
        deadline = self._clock() + LAG_SECONDS
        nothing = CloudRefused(str(error), Kind.CAPACITY, error.code)
        while not any(one.token == purchase.token for one in self.machines(purchase.cluster)):
            self._patience.wait(deadline, nothing)

    def _remember(self, purchase: Purchase, ids: Sequence[str]) -> None:
        tags = borne(Whose(purchase.cluster, self._owner), purchase.token)
        with self._lock:
            for id_ in ids:
                self._bought[id_] = Machine(
                    id_,
                    MachineState.PENDING,
                    launched=self._clock(),
                    token=purchase.token,
                    tags=tags,
                )

    def _unlisted(self, cluster: str) -> tuple[Machine, ...]:
        """Return what was bought and is not listed yet; DescribeInstances lags."""
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
            new = ("InvalidInstanceID",) if known else ()
            self._patience.call("terminate_instances", {"InstanceIds": [id_]}, new)
        except CloudRefused as error:
            if not removal.GONE.search(error.code):
                raise

    def _machine(self, row: Mapping[str, Any], *, public: bool) -> Machine:
        slots = self._catalogue.kind(row["InstanceType"]).slots
        price = 0.0 if row["State"]["Name"] == "terminated" else self._price(row)
        return machine(row, price, slots, public=public)

    def _price(self, row: Mapping[str, Any]) -> float:
        return self._catalogue.price(row["InstanceType"], row["Placement"]["AvailabilityZone"])


@dataclass(frozen=True)
class Sweep:
    """What was found over all regions.

    Args:
        refused: Region, and the sentence why it was not looked through.
    """

    left: tuple[Leftover, ...]
    refused: tuple[tuple[str, str], ...]


def regions(region: str, endpoint: str = "") -> tuple[str, ...]:
    """Return the regions that the account has.

    Raises:
        CloudRefused: They are not told.
    """
    rows = Connection(region, endpoint).rows("ec2", "describe_regions", "Regions")
    return tuple(sorted(row["RegionName"] for row in rows))


def sweep(region: str, endpoint: str = "", only: Sequence[str] = ()) -> Sweep:
    """Look for what bears our tags in all regions that the account has, baked images too.

    Args:
        region: Any; it is asked for the others.
        only: Regions to look through instead of all.

    Raises:
        CloudRefused: The regions are not told.
    """
    names = tuple(only) or regions(region, endpoint)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        found = list(pool.map(lambda name: _swept(name, endpoint), names))
    return Sweep(
        tuple(left for part, _ in found for left in part),
        tuple((name, said) for name, (_, said) in zip(names, found, strict=True) if said),
    )


def _swept(region: str, endpoint: str) -> tuple[tuple[Leftover, ...], str]:
    try:
        return Ec2(region, endpoint=endpoint).leftovers(images=True), ""
    except CloudRefused as error:
        return (), str(error)


def _entries(page: Mapping[str, Any], path: Sequence[str]) -> Iterator[dict[str, Any]]:
    for entry in page.get(path[0]) or ():
        if path[1:]:
            yield from _entries(entry, path[1:])
        else:
            yield entry


def _nothing(answer: Mapping[str, Any]) -> CloudRefused:
    """Return the refusal that a 200 without machines is."""
    errors = answer.get("Errors") or [{"ErrorCode": "UnfulfillableCapacity"}]
    refusals = [
        classify(error.get("ErrorCode") or "", error.get("ErrorMessage") or "") for error in errors
    ]
    # A type that one of the zones never has says nothing where another pool gives a reason. And
    # where one pool only lacks capacity, another rung may do; else a person mends the first.
    said = [one for one in refusals if one.code != "Unsupported"] or refusals
    chosen = next((one for one in said if one.kind is Kind.CAPACITY), said[0])
    return CloudRefused(chosen.sentence, chosen.kind, chosen.code)


class _Mapped:
    """A context in which boto3's errors become ``CloudRefused``."""

    def __enter__(self) -> None:
        return None

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if isinstance(error, exceptions.ClientError):
            told = error.response.get("Error", {})
            raise refused(told.get("Code") or "NoAnswer", told.get("Message") or "") from error
        if isinstance(error, _NO_CREDENTIALS):
            raise refused("NoCredentials", str(error)) from error
        if isinstance(error, exceptions.BotoCoreError | ResponseParserError):
            raise refused(_code(error), str(error)) from error


_NO_CREDENTIALS = (
    exceptions.NoCredentialsError,
    exceptions.PartialCredentialsError,
    exceptions.CredentialRetrievalError,
    exceptions.TokenRetrievalError,
    exceptions.SSOError,
    exceptions.ProfileNotFound,
)


_NO_ANSWER = (exceptions.HTTPClientError, exceptions.ConnectionError, ResponseParserError)


def _code(error: Exception) -> str:
    if isinstance(error, _NO_ANSWER):
        return "NoAnswer"
    return f"Invalid.{type(error).__name__}"
