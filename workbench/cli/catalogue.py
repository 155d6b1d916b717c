"""The list of commands, in the order of the help page; each loads its code when called."""

from __future__ import annotations

import click

from workbench.cli.completion_values import files, node_names, run_names, unfinished_names
from workbench.cli.options import (
    ACCEPT_KEYS,
    ACROSS_ZONES,
    ANY_CLUSTER,
    AT,
    CLUSTER,
    DATA,
    DELETION,
    HERE,
    HOSTS,
    HOW_MANY,
    JSON,
    MARKET,
    MONEY,
    NEEDS,
    NETWORK,
    NO_WAIT,
    NODE,
    OVERSUBSCRIBE,
    PICTURE,
    PLAN,
    RETENTION,
    RUN,
    SECONDS,
    YES,
    count,
    flag,
    option,
)
from workbench.cli.parsing import Command, Commands
from workbench.core.supervisor.log_reading import LEVELS
from workbench.view.option_help import HELP

SHELLS = ("bash", "zsh", "fish")
RANKS = click.Argument(["ranks"], type=int, required=False)
ONE_RUN = click.Argument(["run"], required=False, shell_complete=run_names)

DEMO = Command(
    "demo",
    "command:demo",
    "Train a small network here, in a minute",
    text="Train a small network on real images, on a cluster that is deleted afterwards.",
    options={
        "Options": [
            count("--ranks", show_default="2"),
            flag("--keep", help="Leave the cluster up afterwards."),
        ]
    },
)
UP = Command(
    "up",
    "command:up",
    "Start a cluster, here or on other machines",
    text="""Start a cluster of RANKS ranks: on this machine, on your hosts, or on EC2.

    RANKS defaults to all slots, or to the number of GPUs. Without options, a cluster that is up
    keeps what it has, and a new one starts on this machine.
    What nodes cost is shown first, and nothing is bought before you agree.""",
    arguments=[RANKS],
    options={
        "Provider": [HERE, *HOSTS, *MARKET],
        "How many": [*HOW_MANY, OVERSUBSCRIBE],
        "What each node needs": [*NEEDS, ACROSS_ZONES],
        "Money": MONEY,
        "Data and software": DATA,
        "Other": [*NETWORK, ACCEPT_KEYS, YES, NO_WAIT, CLUSTER],
    },
    examples=[
        "workbench up 2",
        "workbench up --host '10.0.0.4 slots=1' --host '10.0.0.5 slots=1'",
        "workbench up --ec2 --nodes 4 --gpus 1 --budget 5 --ttl 4h",
    ],
)
RESIZE = Command(
    "resize",
    "command:resize",
    "Change the number of ranks or nodes",
    text="""Change a cluster's number of RANKS, or its number of nodes.

    What more nodes cost is shown first, and nothing is bought before you agree.""",
    arguments=[RANKS],
    options={"Options": [count("--nodes"), AT, ACROSS_ZONES, OVERSUBSCRIBE, YES, NO_WAIT, CLUSTER]},
    examples=["workbench resize 4", "workbench resize --nodes 8 --at epoch"],
)
DELETE = Command(
    "delete",
    "command:delete",
    "Delete a cluster and its nodes",
    text="""Delete a cluster with its nodes, and stop its unfinished runs.

    Runs and their results stay in the store.""",
    options={"Options": [flag("--yes", help=HELP["delete --yes"]), NO_WAIT, CLUSTER]},
)
RUN_COMMAND = Command(
    "run",
    "command:run",
    "Run a script or job file on every rank",
    text="""Run SCRIPT, or a job file (.toml, .json), on every rank and show its progress.

    ARGUMENTS are passed to the script. After a job file, options override what the file says.
    The cluster is started if necessary, and stays up.

    With --resume, a run that has ended continues from its newest snapshot, on as many ranks as
    there are, under its old name. SCRIPT then replaces its source, and --param adds to its
    parameters; both may be left out.""",
    arguments=[
        click.Argument(["script"], required=False, shell_complete=files),
        click.Argument(["arguments"], nargs=-1, type=click.UNPROCESSED, shell_complete=files),
    ],
    options=RUN,
    examples=[
        "workbench run --ranks 2 train.py --epoch 3",
        "workbench run --param lr=0.1 --compress bf16 train.py",
        "workbench run -m package.train --epoch 3",
        "workbench run job.toml --background",
        "workbench run --resume digits --ranks 3",
    ],
    context_settings={"allow_interspersed_args": False},
)
STOP = Command(
    "stop",
    "command:stop",
    "Stop a run after its current iteration",
    text="Stop RUN after its current iteration. Without RUN, stop the current run.",
    arguments=[click.Argument(["run"], required=False, shell_complete=unfinished_names)],
    options={"Options": [NO_WAIT, CLUSTER]},
)
STATUS = Command(
    "status",
    "command:status",
    "Show clusters, nodes, ranks and runs",
    text="Show clusters, their nodes and costs, their ranks, and unfinished runs.",
    options={"Options": [JSON, ANY_CLUSTER]},
)
LOGS = Command(
    "logs",
    "command:logs",
    "Print what a run or the supervisor wrote",
    text="""Print what the ranks wrote in RUN, or in the newest run. Each attempt of a run that
    continued has a heading.

    --supervisor prints what the cluster's supervisor did instead: which worlds of ranks it
    started, which nodes it bought or lost, and why a run ended.""",
    arguments=[ONE_RUN],
    options={
        "Options": [
            flag("-f", "--follow", "is_followed",
                 help="Follow the output until the run has ended."),
            option("--rank", type=int, metavar="N", help="Print one rank only.",
                   show_default="all ranks"),
            flag("--traceback", help="Print the failed rank's traceback with all frames."),
            CLUSTER,
        ],
        "Instead of a run": [
            flag("--supervisor", help="Print what the supervisor did."),
            option("--level", type=click.Choice(LEVELS), default="info",
                   help="Lowest level that --supervisor prints."),
            flag("--controller", help="Print the raw logs of ipyparallel's controller."),
            flag("--engines", help="Print the raw logs of mpiexec and the engines."),
        ],
    },
    examples=["workbench logs -f", "workbench logs --supervisor"],
)  # fmt: skip
RUNS = Command(
    "runs",
    "command:runs",
    "List, compare or delete runs",
    text="""List the newest runs. With NAMES (or ids), compare these runs side by side; with one,
    show its source, arguments, notebook, git commit and files, too.

    Here, as everywhere, a name means its newest run, and NAME~1 the one before. In a notebook the
    runs of that notebook come first.""",
    arguments=[click.Argument(["names"], nargs=-1, shell_complete=run_names)],
    options={
        "Options": [
            option("--limit", type=click.IntRange(min=1), metavar="N", default=20),
            flag("--all"),
            option("--plot", type=PICTURE, metavar="FILE.png",
                   help="Save a picture of the curves of NAMES."),
            flag("--csv", "as_csv", help="Print every point of NAMES as a table."),
            JSON,
        ],
        "Delete runs": [*DELETION, *RETENTION],
    },
    examples=[
        "workbench runs --plot curves.png slow quick",
        "workbench runs --delete --older-than 30d --keep 10",
    ],
)  # fmt: skip
BANDWIDTH = Command(
    "bandwidth",
    "bandwidth:bandwidth_command",
    "Measure links, allreduce, disks and devices",
    text="Measure a cluster: links between nodes, allreduce over sizes, disks and devices.",
    options={
        "Options": [
            option("--rating", type=float, metavar="GBITS"),
            flag("--last", help="Show the last measurement without measuring again."),
            option(
                "--plot", type=PICTURE, metavar="FILE.png", help="Save a picture of the result."
            ),
            JSON,
            CLUSTER,
        ]
    },
)
PLAN_COMMAND = Command(
    "plan",
    "plan:plan_command",
    "Predict time and cost for more nodes",
    text="""Predict time and cost of an epoch for numbers of nodes of each type.

    The prediction uses the newest measured run, and the measured or rated network.""",
    options=PLAN,
    examples=["workbench plan --ec2 --gpus 1", "workbench plan --rehearsal --max-nodes 8"],
)
OFFERS = Command(
    "offers",
    "cloud_commands:offers",
    "List node types that fit, with prices",
    text="List the node types that fit, their prices and your quota. Nothing is started.",
    options={
        "Provider": MARKET,
        "How many": HOW_MANY,
        "What each node needs": NEEDS,
        "Money": MONEY,
        "Other": [JSON],
    },
    examples=["workbench offers --ec2 --nodes 4 --gpus 1"],
)
EXTEND = Command(
    "extend",
    "cloud_commands:extend",
    "Extend the time to live of a cluster",
    text="Extend the time to live of a cluster by DURATION, such as 4h.",
    arguments=[click.Argument(["seconds"], type=SECONDS, metavar="DURATION")],
    options={"Options": [CLUSTER]},
    examples=["workbench extend 4h"],
)
SWEEP = Command(
    "sweep-leaks",
    "cloud_commands:sweep_leaks",
    "Find and delete forgotten cloud resources",
    text="""List everything with workbench's tags in your AWS account, and delete it if you agree.

    Clusters that are up here are listed and kept. Resources of other people in
    the same account are kept too, unless you add --others.""",
    options={
        "Options": [
            option("--region", default="", metavar="NAME", show_default="all regions",
                   help="Search only this AWS region."),
            flag("--rehearsal", help="Look at simulated nodes instead."),
            flag("--others", help="Also delete resources of other people's clusters."),
            JSON,
            YES,
        ]
    },
)  # fmt: skip
IMAGE = Commands(
    "image",
    text="Make images from which nodes boot faster, and delete them.",
    summary="Make images from which nodes boot faster",
    commands={
        "Commands": [
            Command(
                "bake",
                "images:bake",
                "Make an image of a node",
                text="""Make an image of a node after its setup, without its keys, lease and logs.

    The node keeps running. If you have none, start one with
    `workbench up --ec2 --nodes 1 --cluster bake`, and delete it later with
    `workbench delete --cluster bake`.""",
                options={
                    "Options": [
                        NODE,
                        option("--name", default="", metavar="NAME", help="Name of the image.",
                               show_default="workbench-DATE-TIME"),
                        YES,
                        NO_WAIT,
                        CLUSTER,
                    ]
                },
            ),
            Command(
                "delete",
                "images:delete",
                "Delete an image and its snapshots",
                text="Delete the image AMI, and the snapshots that belong to it.",
                arguments=[click.Argument(["image"], metavar="AMI")],
                options={
                    "Options": [
                        option("--region", default="", metavar="NAME", help="AWS region.",
                               show_default="AWS's own setting"),
                        YES,
                    ]
                },
            ),
        ]
    },
)  # fmt: skip
DOCTOR = Command(
    "doctor",
    "command:doctor",
    "Check this machine and your hosts",
    text="Check this machine or your hosts for problems, and print how to fix each one.",
    options={
        "Options": [
            *HOSTS,
            ACCEPT_KEYS,
            flag("--all", "all_", help="Show every check of every host."),
            JSON,
            CLUSTER,
        ],
        "AWS": [
            option("--iam", type=click.Choice(["person", "node", "baker"]), is_flag=False,
                   flag_value="person",
                   help="Print an IAM policy; --iam alone prints yours, as a person."),
            option("--output", "bucket", default="", metavar="s3://…", show_default="no bucket",
                   help="S3 prefix that the node's policy allows nodes to write to."),
        ],
    },
    examples=["workbench doctor", "workbench doctor --iam node --output s3://bucket/prefix"],
)  # fmt: skip
INTERRUPT = Command(
    "interrupt",
    "cloud_commands:interrupt",
    "Reclaim a node of a rehearsal, for a test",
    text="""Reclaim NODE, or the newest node, of a rehearsal, as EC2 reclaims spot nodes.

    Use it to see how a run recovers.""",
    arguments=[click.Argument(["node"], default="", required=False, shell_complete=node_names)],
    options={
        "Options": [
            option("--notice", type=SECONDS, default=0.0, show_default="no notice"),
            CLUSTER,
        ]
    },
)
COMPLETION = Command(
    "completion",
    "shell_completion:completion",
    "Set up Tab completion for your shell",
    text="""Print the script that lets Tab complete commands, options and names in your shell.

    Run one of the lines below once, then open a new shell.""",
    arguments=[click.Argument(["shell"], type=click.Choice(SHELLS))],
    options={"Options": []},
    examples=[
        "echo 'eval \"$(workbench completion bash)\"' >> ~/.bashrc",
        "echo 'eval \"$(workbench completion zsh)\"' >> ~/.zshrc",
        "workbench completion fish > ~/.config/fish/completions/workbench.fish",
    ],
)

main = Commands(
    "workbench",
    text="Train on many machines: start a cluster and run a script on every MPI rank.",
    commands={
        "Start": [DEMO, UP, RESIZE, DELETE],
        "Train": [RUN_COMMAND, STOP],
        "Inspect": [STATUS, LOGS, RUNS, BANDWIDTH],
        "Cost": [PLAN_COMMAND, OFFERS, EXTEND, SWEEP, IMAGE],
        "Troubleshoot": [DOCTOR, INTERRUPT, COMPLETION],
    },
    options=[],
    examples=[
        "workbench demo                 see it work, in a minute",
        "workbench up 2                 start two ranks on this machine",
        "workbench run train.py         run a script on them",
        "workbench delete               delete the cluster",
    ],
)
main = click.version_option(package_name="workbench", message="workbench %(version)s")(main)
