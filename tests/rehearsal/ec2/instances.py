"""Start, boot and end instances, and finish images, as time passes."""

from __future__ import annotations

import base64
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from moto.ec2.models import ec2_backends
from moto.ec2.utils import convert_tag_spec, random_id

from tests.rehearsal.ec2 import images
from tests.rehearsal.ec2.answers import at, type_facts
from tests.rehearsal.ec2.launching import ACCOUNT, Launch
from tests.rehearsal.ec2.market import MARKET

INTERRUPTED = "Server.SpotInstanceTermination"
NO_KEY = "Client.InternalError"
# Called when a machine is launched, and when its end begins; a rehearsal with machines listens.
on_launch: list[Callable[[Any, float], None]] = []
on_end: list[Callable[[str], None]] = []
on_address: list[Callable[[], str]] = []
on_public: list[Callable[[str], str]] = []
is_ready: list[Callable[[str], bool]] = []


def launch(asked: Launch, subnet: Any, tags: dict[str, str]) -> str:
    """Launch one machine, and return its id."""
    lifecycle = None if asked.on_demand else "spot"
    data, backend = asked.data, asked.backend
    of = convert_tag_spec(data.get("TagSpecifications", []))
    reservation = backend.run_instances(
        data["ImageId"],
        1,
        data.get("UserData"),
        [],
        security_group_ids=asked.groups,
        instance_type=asked.type,
        is_instance_type_default=False,
        subnet_id=subnet.id,
        key_name=data.get("KeyName"),
        tags={"instance": {**of.get("instance", {}), **tags}, "volume": of.get("volume", {})},
        lifecycle=lifecycle,
        associate_public_ip=_is_public(asked, subnet),
        metadata_options=data.get("MetadataOptions", {}),
        instance_initiated_shutdown_behavior=data.get("InstanceInitiatedShutdownBehavior"),
        block_device_mappings=data["BlockDeviceMappings"],
        region_name=asked.region,
    )
    [instance] = reservation.instances
    instance.instance_lifecycle = lifecycle
    instance.launch_time = at(MARKET.now).replace(tzinfo=None)  # as moto has its times
    instance.placement.group_name = asked.group
    instance._state.name, instance._state.code = "pending", 0
    for nic in instance.nics.values():
        for give in on_address:  # where the hosts are, and moto's subnets are not
            nic.private_ip_address = give()
            nic.private_ip_addresses[0]["PrivateIpAddress"] = nic.private_ip_address
        for show in on_public if nic.public_ip else ():
            nic.public_ip = show(nic.private_ip_address)
        backend.create_tags([nic.id], of.get("network-interface", {}))
    if not asked.on_demand:
        _request(asked, instance, of.get("spot-instances-request", {}))
    if type_facts(asked.type).get("BurstablePerformanceSupported"):
        MARKET.credits[instance.id] = asked.credits
    MARKET.launched[instance.id] = MARKET.now
    MARKET.region_of[instance.id] = asked.region
    MARKET.take(asked.type, instance.availability_zone, 1)
    for listener in on_launch:
        listener(instance, MARKET.now)
    return str(instance.id)


def _is_public(asked: Launch, subnet: Any) -> bool:
    """Return whether a machine gets a public address: as it asks, or else as its subnet gives."""
    if asked.public is not None:
        return asked.public
    return str(subnet.map_public_ip_on_launch).lower() == "true"


def _request(asked: Launch, instance: Any, tags: dict[str, str]) -> None:
    request = f"sir-{random_id()[-8:]}"
    instance.spot_instance_request_id = request
    asked.backend.create_tags([request], tags)
    MARKET.requests[request] = {
        "SpotInstanceRequestId": request, "InstanceId": instance.id, "State": "active",
        "Type": "one-time", "CreateTime": at(MARKET.now), "Region": asked.region,
    }  # fmt: skip


def begin_end(instance: Any, *, interrupted: bool = False) -> None:
    """Begin to end a machine; it is gone after a while."""
    if instance.state in ("shutting-down", "terminated"):
        return
    instance._state.name, instance._state.code = "shutting-down", 32
    instance.interrupted = interrupted
    MARKET.ends[instance.id] = MARKET.now + MARKET.ending
    MARKET.notices.pop(instance.id, None)
    for listener in on_end:
        listener(instance.id)


def settle(backend: Any) -> None:
    """Let all that is due happen."""
    images.settle(backend)
    for instance in list(backend.all_instances()):
        if instance.id in MARKET.launched:
            _settle(backend, instance)
    _release()


def _settle(backend: Any, instance: Any) -> None:
    booted = MARKET.now - MARKET.launched[instance.id] >= MARKET.boot
    if instance.state == "pending" and booted and MARKET.customer_key:
        begin_end(instance)
        instance.state_reason.code = NO_KEY
        instance.state_reason.message = f"{NO_KEY}: Client error on launch"
        _finish(backend, instance)
        return
    if instance.state == "pending" and booted and all(ask(instance.id) for ask in is_ready):
        instance._state.name, instance._state.code = "running", 16
    if MARKET.notices.get(instance.id, float("inf")) <= MARKET.now:
        begin_end(instance, interrupted=True)
    if instance.state == "shutting-down" and MARKET.ends[instance.id] <= MARKET.now:
        _finish(backend, instance)


def _release() -> None:
    """Give back to their pools what machines held that are gone long enough."""
    for id_, (type_, zone, since) in list(MARKET.held.items()):
        if MARKET.now >= since + MARKET.counted:
            del MARKET.held[id_]
            MARKET.take(type_, zone, -1)


def _finish(backend: Any, instance: Any) -> None:
    zone, nics = instance.availability_zone, list(instance.nics.values())
    reason = (instance.state_reason.code, instance.state_reason.message)
    instance.terminate()
    for nic in nics:
        backend.enis.pop(nic.id, None)
        backend.tags.pop(nic.id, None)
    MARKET.held[instance.id] = (instance.instance_type, zone, MARKET.now)
    _release()
    for request in MARKET.requests.values():
        if request["InstanceId"] == instance.id:
            request["State"] = "closed"
    when = datetime.fromtimestamp(MARKET.now, UTC)
    instance._reason = f"User initiated ({when:%Y-%m-%d %H:%M:%S} GMT)"
    if instance.interrupted:
        instance._reason = f"Server.SpotInstanceTermination ({when:%Y-%m-%d %H:%M:%S} GMT)"
        instance.state_reason.code = INTERRUPTED
        instance.state_reason.message = f"{INTERRUPTED}: Spot instance termination"
    if reason[0] == NO_KEY:
        instance._reason = ""
        instance.state_reason.code, instance.state_reason.message = reason


def instance_of(id_: str) -> Any:
    """Return moto's instance."""
    return ec2_backends[ACCOUNT][MARKET.region_of[id_]].get_instance(id_)


def user_data(instance: Any) -> str:
    """Return the user-data as it was given."""
    return base64.b64decode(str(instance.user_data or "")).decode()
