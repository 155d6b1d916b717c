"""The rehearsal's EC2 on a loopback port; ends when standard input closes.

Says its port on the first line of standard output. What a test does to the market comes as JSON
to ``/rehearsal``.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import sys
import threading
from collections.abc import Callable, Iterable
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from moto.core.base_backend import BackendDict
from moto.ec2.models import ec2_backends
from moto.moto_server.werkzeug_app import (
    DomainDispatcherApplication,
    MotoRequestHandler,
    create_backend_app,
)
from werkzeug.serving import make_server

from tests.rehearsal.bare.debian import Debian
from tests.rehearsal.ec2 import credentials, images, instances, plugin, pricing
from tests.rehearsal.ec2.launching import ACCOUNT
from tests.rehearsal.ec2.machines import Machines
from tests.rehearsal.ec2.market import MARKET, Fault, Market
from tests.rehearsal.relay import Relay


def settings(**values: Any) -> None:
    """Set how long things take."""
    for name, value in values.items():
        setattr(MARKET, name, value)


def subnets(public: bool) -> None:
    """Set whether the subnets give public addresses (``MapPublicIpOnLaunch``)."""
    for backend in ec2_backends[ACCOUNT].values():
        for by_id in backend.subnets.values():
            for subnet in by_id.values():
                subnet.map_public_ip_on_launch = public


def expire(*keys: str) -> None:
    """Let access keys expire."""
    MARKET.expired |= set(keys)


def know(*keys: str) -> None:
    """Know these access keys and no others."""
    MARKET.keys = set(keys)


def throttle(action: str, calls: float, refill: float) -> None:
    """Set how many calls of an action are taken at once, and how many more each second."""
    MARKET.rates[action] = (calls, refill)


def pool(type: str, zone: str, free: int, close: int | None = None) -> None:
    """Set how many machines of a type a zone has left."""
    MARKET.pools[type, zone] = free
    if close is not None:
        MARKET.close[type, zone] = close


def price(type: str, zone: str, dollars: float) -> None:
    """Set the price from now on."""
    MARKET.fixed.setdefault((type, zone), []).append((MARKET.now, dollars))


def quota(code: str, vcpus: int) -> None:
    """Set a quota."""
    MARKET.quotas[code] = vcpus


def fail(**fault: Any) -> None:
    """Have calls of an action fail."""
    MARKET.faults.append(Fault(**fault))


def clear_faults() -> None:
    """End all faults."""
    MARKET.faults.clear()


def refuse(errors: list[list[str]]) -> None:
    """Have the next CreateFleet answer with a 200 that has errors alone."""
    MARKET.refusals.append([(code, message) for code, message in errors])


def interrupt(id: str, seconds: float = 120.0) -> None:
    """Reclaim a machine; its notice comes so many seconds before."""
    MARKET.notices[id] = MARKET.now + seconds


def rebalance(id: str) -> None:
    """Recommend to leave a machine."""
    MARKET.rebalances[id] = MARKET.now


def shut_down(id: str) -> None:
    """Do what happens when a machine shuts itself down: here, it is terminated."""
    instances.begin_end(instances.instance_of(id))


def calls() -> list[Any]:
    """Return all calls of EC2 since the last reset."""
    return list(MARKET.calls)


def machines() -> list[dict[str, Any]]:
    """Return all machines as they are, listed already or not."""
    found = [instances.instance_of(id_) for id_ in MARKET.launched]
    for backend in {one.ec2_backend for one in found}:
        instances.settle(backend)
    return [
        {
            "id": one.id,
            "state": one.state,
            "tags": {tag["key"]: tag["value"] for tag in one.get_tags()},
            "noticed": one.id in MARKET.notices,
        }
        for one in found
    ]


def instance(id: str) -> dict[str, Any]:
    """Return what DescribeInstances does not tell."""
    found = instances.instance_of(id)
    return {
        "shutdown": found.instance_initiated_shutdown_behavior,
        "user_data": instances.user_data(found),
        "state": found.state,
        "credits": MARKET.credits.get(id, ""),
        "gpus_work": images.drives(found.ec2_backend.amis[found.image_id], found.instance_type),
    }


def reset() -> None:
    """Forget everything."""
    ec2_backends.clear()  # moto would make each region again, only to forget it then
    BackendDict.reset()
    fresh = Market()
    for field in fields(Market):
        if field.name != "lock":
            setattr(MARKET, field.name, getattr(fresh, field.name))


def market() -> dict[str, Any]:
    """Return the state of the market as JSON."""
    with MARKET.lock:
        return {"now": MARKET.now, "quotas": MARKET.quotas, "faults": [*map(asdict, MARKET.faults)]}


DEEDS: dict[str, Callable[..., Any]] = {
    deed.__name__: deed
    for deed in (
        settings, subnets, expire, know, throttle, pool, price, quota, fail, clear_faults,
        refuse, interrupt, rebalance, shut_down, calls, machines, instance, reset, market,
    )
}  # fmt: skip


class Application:
    """moto's application, and the test's own door beside it."""

    def __init__(self) -> None:
        self._moto = DomainDispatcherApplication(create_backend_app)

    def __call__(self, environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        if environ["PATH_INFO"] != "/rehearsal":
            if refusal := credentials.refuse(environ):
                status, kind, body = refusal
                start(status, [("Content-Type", kind)])
                return [body]
            if pricing.is_for(environ):
                status, kind, body = pricing.answer(environ)
                start(status, [("Content-Type", kind)])
                return [body]
            return self._moto(environ, start)
        asked = json.loads(environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"])))
        try:
            with MARKET.lock:
                answer = DEEDS[asked["do"]](*asked.get("args", ()), **asked["with"])
        except Exception as error:  # noqa: BLE001 - the test has to read what was wrong
            start("500 Wrong", [("Content-Type", "text/plain")])
            return [f"{type(error).__name__}: {error}".encode()]
        start("200 OK", [("Content-Type", "application/json")])
        return [json.dumps(answer).encode()]


class Silent(MotoRequestHandler):
    """A handler that writes no log."""

    def log(self, type: str, message: str, *args: Any) -> None:
        return None


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--machines", action="store_true", help="put a host behind each instance")
    parser.add_argument("--far", action="store_true", help="reach hosts as a home does")
    parser.add_argument("--bare", type=Path, help="its disk: a folder of tests.rehearsal.bare")
    options = parser.parse_args()
    base = Debian(options.bare) if options.bare else None
    plugin.install()
    server = make_server("127.0.0.1", 0, Application(), threaded=True, request_handler=Silent)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    said = sys.stdout
    sys.stdout = io.StringIO()  # werkzeug and moto have nothing more to say there
    with contextlib.ExitStack() as opened:
        relay = opened.enter_context(Relay()) if options.far else None
        if relay is not None:
            DEEDS.update(part=relay.part, rejoin=relay.rejoin)
        if options.machines:
            opened.enter_context(Machines(base, relay))
        print(server.server_port, file=said, flush=True)
        sys.stdin.read()
    os._exit(0)  # no process waits for an answer any more


if __name__ == "__main__":
    main()
