"""The fields of a job file.

The fields are those of a batch service's job file. Fields that have no effect are errors.
``shrink`` says where a run that loses a node
continues from its newest snapshot: on the remaining nodes, or once others have replaced it.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
)

from workbench.core.cluster.model import DEFAULT_CLUSTER, check_cluster_name
from workbench.core.fleet.model import Provider
from workbench.core.fleet.request import (
    DEFAULT_LIMIT,
    START_SECONDS,
    FleetRequest,
    Spelling,
)
from workbench.core.option_values import seconds
from workbench.core.run.batch_option import check_batch
from workbench.core.run.exchange_options import check_codec, check_communicator
from workbench.core.run.model import DEFAULT_GRACE, DEFAULT_RETRIES, MOST_RETRIES, check_run_name
from workbench.core.world.hostfile import parse_hosts
from workbench.core.world.world import MAX_RANKS
from workbench.errors import InputError

CONTINUE, WAIT = "continue", "wait"
AFTERWARDS = {
    CONTINUE: "on the nodes that are left",
    WAIT: "when the node is replaced",
}


def _explained(check: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Let pydantic collect the errors of ``check`` instead of stopping at the first."""

    def checked(value: Any) -> Any:
        try:
            return check(value)
        except InputError as error:
            raise ValueError(str(error)) from error

    return checked


def _text(value: object) -> str:
    """Return a number as text, which programs expect: ``arguments = ["--epoch", 3]``."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise TypeError
    return str(value)


def _storable(value: object) -> object:
    json.dumps(value)  # TypeError for TOML's dates and times
    return value


def _plain(check: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def checked(value: Any) -> Any:
        try:
            return check(value)
        except TypeError as error:
            raise ValueError("") from error

    return checked


def _host_lines(lines: tuple[str, ...]) -> tuple[str, ...]:
    parse_hosts("\n".join(lines))
    return lines


Text = Annotated[str, BeforeValidator(_plain(_text))]
Value = Annotated[Any, BeforeValidator(_plain(_storable))]
Seconds = Annotated[float, BeforeValidator(_explained(seconds))]


def _whole(lowest: int, example: int) -> Any:
    return Field(
        default=None,
        strict=True,
        ge=lowest,
        le=MAX_RANKS,
        description=f"a whole number from {lowest} to {MAX_RANKS}",
        examples=[example],
    )


def _amount(unit: str, example: float) -> Any:
    return Field(
        default=None,
        strict=True,
        ge=0,
        allow_inf_nan=False,
        description=f"a number of {unit}, from 0 up",
        examples=[example],
    )


def _optional(what: str, example: object) -> Any:
    return Field(default=None, description=what, examples=[example])


class JobNeeds(BaseModel):
    """The requirements on each node."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    gpus: int | None = _whole(0, 1)
    gpu_memory: float | None = _amount("GiB", 16)
    memory: float | None = _amount("GiB", 32)
    vcpus: int | None = _whole(0, 8)
    network: float | None = _amount("Gbit/s that are sustained", 5)
    types: tuple[str, ...] | None = _optional("a list of texts", ["g4dn.xlarge"])
    zones: tuple[str, ...] | None = _optional("a list of texts", ["us-east-1a"])
    subnets: tuple[str, ...] | None = _optional("a list of texts", ["subnet-0a1b2c3d"])


class Job(BaseModel):
    """The content of a job file; a field's description completes "must be …"."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    script: str = Field(min_length=1, description="the path of a script", examples=["train.py"])
    name: Annotated[str, AfterValidator(_explained(check_run_name))] | None = _optional(
        "a text", "digits on two ranks"
    )
    arguments: tuple[Text, ...] = Field(
        default=(), description="a list of texts and numbers", examples=[["--epoch", "3"]]
    )
    ranks: int | None = _whole(1, 2)
    oversubscribe: bool = Field(
        default=False, strict=True, description="true or false", examples=[True]
    )
    parameters: dict[str, Value] = Field(
        default={}, description="a table of numbers and texts", examples=[{"lr": 0.1}]
    )
    environment: dict[str, Text] = Field(
        default={}, description="a table of texts and numbers", examples=[{"DATA_ROOT": "data"}]
    )
    communicator: Annotated[str, AfterValidator(_explained(check_communicator))] | None = _optional(
        '"auto", "ring", "doubling", "hierarchical" or "mpi", in place of ChainerMN\'s',
        "auto",
    )
    compress: Annotated[str, AfterValidator(_explained(check_codec))] | None = _optional(
        '"none", "fp16", "bf16", "int8", "topk" or "powersgd"', "powersgd"
    )
    double_buffering: bool = Field(
        default=False, strict=True, description="true or false", examples=[True]
    )
    keep_batch: Annotated[str, AfterValidator(_explained(check_batch))] | None = _optional(
        '"global" or "per-rank"', "per-rank"
    )
    grace: Seconds = Field(default=DEFAULT_GRACE, description="a length of time", examples=["5s"])
    retries: int = Field(
        default=DEFAULT_RETRIES,
        strict=True,
        ge=0,
        le=MOST_RETRIES,
        description=f"a whole number from 0 to {MOST_RETRIES:,}",
        examples=[3],
    )
    restart: bool = Field(default=False, strict=True, description="true or false", examples=[True])
    wall_clock_limit: Seconds = Field(default=0.0, description="a length of time", examples=["90m"])
    cluster: Annotated[str, AfterValidator(_explained(check_cluster_name))] = Field(
        default=DEFAULT_CLUSTER, description="a text", examples=["default"]
    )
    provider: Provider | None = _optional('one of "local", "hosts", "ec2" and "rehearsal"', "ec2")
    hosts: Annotated[tuple[str, ...], AfterValidator(_explained(_host_lines))] = Field(
        default=(), description="a list of texts", examples=[["172.31.41.13 slots=1"]]
    )
    host_file: str | None = _optional("the path of a host file", "hosts.txt")
    nodes: int | None = _whole(0, 4)
    min_nodes: int | None = _whole(1, 2)
    max_nodes: int | None = _whole(1, 8)
    slots: int | None = _whole(1, 1)
    needs: JobNeeds = Field(default=JobNeeds(), description="a table", examples=[{"gpus": 1}])
    region: str | None = _optional("a text", "us-east-1")
    max_price: float | None = _amount("$/h for all nodes together", 2.5)
    budget: float | None = _amount("$ in all", 20)
    ttl: Seconds | None = _optional("a length of time", "8h")
    data: str | None = _optional("a folder, or s3://bucket/prefix", "s3://bucket/digits")
    output: str | None = _optional("a folder, or s3://bucket/prefix", "s3://bucket/results")
    snapshots: str | None = _optional(
        "a folder that all nodes share, or s3://bucket/prefix", "s3://bucket/snapshots"
    )
    prepare: str | None = _optional("the path of a shell script", "prepare.sh")
    image: str | None = _optional("the id of an image", "ami-0123456789abcdef0")
    disk: int | None = _whole(8, 200)
    cuda: bool | None = Field(
        default=None, strict=True, description="true or false", examples=[True]
    )
    ssh_from: str | None = _optional("an address, or a private network", "203.0.113.7")
    lease: Seconds | None = _optional("a length of time", "30m")
    across_zones: bool | None = Field(
        default=None, strict=True, description="true or false", examples=[True]
    )
    link: float | None = _amount("Gbit/s that join a rehearsal's nodes", 0.1)
    shrink: Literal["continue", "wait"] | None = _optional(
        '"continue" with the nodes that are left or "wait" for others', CONTINUE
    )

    @property
    def limit(self) -> float:
        """Seconds after which the run is stopped; 0 for none, 7 days on nodes that cost."""
        if "wall_clock_limit" in self.model_fields_set or not self.request().costs:
            return self.wall_clock_limit
        return DEFAULT_LIMIT

    @property
    def time_to_live(self) -> float:
        """Default seconds until paid nodes are deleted."""
        return (self.limit or DEFAULT_LIMIT) + START_SECONDS

    @property
    def remark(self) -> str:
        """A note for the user on the effect of lost nodes; empty for none."""
        if not self.shrink:
            return ""
        where = AFTERWARDS[self.shrink]
        if self.restart:
            return f"The script starts again {where} if it loses a node."
        return (
            f"A run that loses a node continues from its newest snapshot {where}, or ends if it "
            "has none."
        )

    def request(self, host_file: str = "", prepare: str | None = None) -> FleetRequest:
        """Return the options about nodes.

        Args:
            host_file: Text of the named host file.
            prepare: Text of the named script.

        Raises:
            InputError: The host file is invalid.
        """
        hosts = parse_hosts(host_file or "\n".join(self.hosts))
        provider = self.provider or (Provider.HOSTS if self.host_file else None)
        request = FleetRequest(
            provider=provider,
            hosts=hosts,
            prepare=prepare,
            **{name: getattr(self, name) for name in _OF_NODES},
            **self.needs.model_dump(),
        )
        # With fewer nodes than all, no world is started.
        waits = self.shrink == WAIT and request.resolved_provider is not Provider.THIS_MACHINE
        return replace(request, min_nodes=request.size or None) if waits else request


_OF_NODES = (
    "nodes", "min_nodes", "max_nodes", "slots", "region", "max_price", "budget", "ttl", "data",
    "output", "snapshots", "image", "disk", "cuda", "ssh_from", "lease", "across_zones",
    "link",
)  # fmt: skip
SPELLING = Spelling(
    lambda name: f"needs.{name}" if name in JobNeeds.model_fields else name,
    'provider = "ec2", provider = "rehearsal", or hosts = ["172.31.41.13 slots=1"]',
)
