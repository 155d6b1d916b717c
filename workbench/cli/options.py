"""The options of all commands, declared without imports so that --help and Tab are fast."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import click

from workbench.cli.completion_values import (
    batch_names,
    cluster_names,
    codec_names,
    communicator_names,
    node_names,
    parameter_starts,
    resize_times,
    run_names,
)
from workbench.cli.parsing import Checked, CommandOption
from workbench.core.cluster.model import DEFAULT_CLUSTER
from workbench.core.fleet.cost import DISK_GIB
from workbench.view.option_help import HELP

SECONDS = Checked("duration", "core.option_values:seconds")
PARAMETER = Checked("name=value", "core.option_values:parameter")
AMOUNT = Checked("amount", "cli.fleet_options:amount")
NBYTES = Checked("bytes", "core.option_values:nbytes_of")
RESIZE_TIME = Checked("step|epoch|end", "core.cluster.resize_time:resize_time")
SIZE = Checked("size", "core.recovery.retention:parse_size")
KEPT_TIME = Checked("duration", "cli.run_deletion:age")
KEPT_SIZE = Checked("size", "cli.run_deletion:nbytes")
FILE, FOLDER = click.Path(), click.Path(file_okay=False)
PICTURE = click.Path(path_type=Path)


def option(name: str, *names: str, **settings: Any) -> CommandOption:
    """Return an option with its shared help text."""
    settings.setdefault("help", HELP.get(name))
    return CommandOption([name, *names], **settings)


flag = partial(option, is_flag=True)
count = partial(option, type=int, metavar="N")

CLUSTER = option("--cluster", default=DEFAULT_CLUSTER, metavar="NAME", shell_complete=cluster_names)
ANY_CLUSTER = option(
    "--cluster", metavar="NAME", shell_complete=cluster_names, show_default="all clusters"
)
AT = option("--at", type=RESIZE_TIME, default="step", metavar="WHEN", shell_complete=resize_times)
OVERSUBSCRIBE = flag("--oversubscribe")
JSON = flag("--json", "as_json", help="Print JSON.")
NO_WAIT = flag("--no-wait", help="Return without waiting.")
YES = flag("--yes", help=f"{HELP['--yes']} Host keys are still confirmed.")
ACCEPT_KEYS = option(
    "--accept-keys",
    multiple=True,
    metavar="FINGERPRINT",
    help="Accept host keys with these fingerprints; repeatable, or separated by commas.",
)
REGION = option("--region", metavar="NAME", show_default="from your AWS config")
LINK = option("--link", type=AMOUNT, metavar="GBITS", show_default="no limit")

HOSTS = [
    option("--hosts", "host_file", type=FILE, metavar="FILE", help="Host file, as for mpiexec."),
    option(
        "--host", "host_lines", multiple=True, metavar="'ADDRESS slots=N'",
        help="One of your hosts; repeatable.",
    ),
]  # fmt: skip
HERE = flag("--here", help="Use only this machine.")
MARKET = [flag("--ec2"), flag("--rehearsal"), REGION]
HOW_MANY = [
    count("--nodes", show_default="1, or all hosts"),
    count(
        "--min-nodes",
        help="Start and keep running with this many nodes while others boot.",
        show_default="1",
    ),
    count(
        "--max-nodes",
        help="Scale up to this many nodes while runs are queued.",
        show_default="no growth",
    ),
    count("--slots", help="Ranks per node.", show_default="1 per GPU, or per core without GPUs"),
]
ACROSS_ZONES = flag("--across-zones")
NEEDS = [
    count("--gpus"),
    option("--gpu-memory", type=AMOUNT, metavar="GIB", help="Minimum memory per GPU."),
    option("--memory", type=AMOUNT, metavar="GIB", help="Minimum memory per node."),
    count("--vcpus", help="Minimum number of vCPUs per node."),
    option("--network", type=AMOUNT, metavar="GBITS"),
    option("--type", "types", multiple=True, metavar="TYPE"),
    option(
        "--zone", "zones", multiple=True, metavar="ZONE",
        help="Allow only this zone; repeatable.",
    ),
    option(
        "--subnet", "subnets", multiple=True, metavar="ID", show_default="default subnets",
        help="Launch nodes in this subnet; repeatable, one per zone.",
    ),
]  # fmt: skip
MONEY = [
    option(
        "--max-price", type=AMOUNT, metavar="$/H",
        help="Max price of all nodes together, per hour.", show_default="no limit",
    ),
    option(
        "--budget", type=AMOUNT, metavar="$",
        help="Total budget: save the runs and release the nodes before they have cost more.",
        show_default="no limit",
    ),
    option(
        "--ttl", type=SECONDS,
        help="Time to live: save the runs and release the nodes by then; 0 means never.",
        show_default="8h for paid nodes, else never",
    ),
]  # fmt: skip
DATA = [
    option("--data", metavar="PLACE", help="Copy a folder or s3://bucket/prefix to every node."),
    option(
        "--output", metavar="PLACE",
        help="Copy what runs write to this folder or s3://bucket/prefix.",
    ),
    option(
        "--snapshots", metavar="PLACE", show_default="this computer",
        help="Copy snapshots to this folder that all nodes share, or to s3://bucket/prefix.",
    ),
    option("--prepare", type=FILE, metavar="FILE", help="Run this script on each node first."),
    option(
        "--image", metavar="IMAGE", show_default="debian-12, with GPUs gpu-ubuntu-24.04",
        help="Image that nodes boot: its id (ami-…) or a name such as ubuntu-24.04.",
    ),
    option(
        "--disk", type=int, metavar="GIB", show_default=f"{DISK_GIB}, or what the image needs",
        help="Size of each node's disk.",
    ),
    flag(
        "--cuda", help="Install CuPy and NCCL on nodes, even if this machine has neither.",
    ),
]  # fmt: skip
NETWORK = [
    option(
        "--ssh-from", metavar="ADDRESS", show_default="this machine's, inside EC2",
        help="Address or network (CIDR) from which nodes accept ssh.",
    ),
    option(
        "--lease", type=SECONDS, show_default="30m",
        help="Nodes shut down if they do not hear from this computer for this long.",
    ),
    LINK,
]  # fmt: skip
RUN = {
    "Options": [
        count("--ranks", show_default="all"),
        flag("-m", "is_module"),
        option("--name", metavar="NAME", show_default="the script's name"),
        option("--param", "parameters", type=PARAMETER, multiple=True,
               shell_complete=parameter_starts),
        option("--resume", metavar="RUN", shell_complete=run_names),
        flag("--background"),
        OVERSUBSCRIBE,
        option("--cluster", metavar="NAME", shell_complete=cluster_names,
               show_default=DEFAULT_CLUSTER),
    ],
    "When it stops": [
        option("--grace", type=SECONDS, show_default="5s"),
        count("--retries", show_default="3"),
        flag("--restart"),
        option("--wall-clock-limit", type=SECONDS, help="Stop the run after this time.",
               show_default="no limit; 7d for a job file whose nodes cost"),
    ],
    "How ranks exchange gradients": [
        option("--communicator", metavar="NAME", shell_complete=communicator_names),
        option("--compress", metavar="NAME", shell_complete=codec_names),
        flag("--double-buffering"),
        option("--keep-batch", metavar="NAME", shell_complete=batch_names, show_default="global"),
    ],
    "Nodes": [ACCEPT_KEYS, YES],
}  # fmt: skip
DELETION = [
    flag("--delete"),
    option("--older-than", "older", type=SECONDS),
    option("--larger-than", "larger", type=SIZE),
    count("--keep"),
    flag("--yes", help="Do not ask before deleting."),
]
RETENTION = [
    option("--retain", type=KEPT_TIME,
           help="From now on, delete runs this long after their end (90d); 'all' keeps them."),
    option("--retain-size", type=KEPT_SIZE,
           help="From now on, delete the oldest runs beyond this total size; 'all' keeps them."),
]  # fmt: skip
PLAN = {
    "Provider": MARKET,
    "What each node needs": NEEDS,
    "What is trained": [
        option("--run", default="", metavar="NAME", shell_complete=run_names,
               help="Plan for this run.", show_default="the newest measured run"),
        option("--step", type=SECONDS),
        option("--gradients", type=NBYTES, metavar="98MB"),
        count("--batch"),
        count("--examples"),
        option("--gpu", default="", metavar="NAME", show_default="the run's"),
    ],
    "Assumptions": [
        count("--max-nodes", default=64),
        flag("--total-batch"),
        flag("--plain"),
        option("--interruptions", type=float, metavar="R", show_default="0.01"),
    ],
    "Other": [
        option("--plot", type=PICTURE, metavar="FILE.png", help="Save a picture of time and cost."),
        JSON,
        CLUSTER,
    ],
}  # fmt: skip
NODE = option(
    "--node", default="", metavar="ID", shell_complete=node_names, help="Which node.",
    show_default="the head",
)  # fmt: skip
