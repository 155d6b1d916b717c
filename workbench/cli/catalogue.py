"""The list of commands, in the order of the help page; each loads its code when called."""

from __future__ import annotations

import click

from workbench.cli.parsing import Command, Commands
from workbench.core.fleet.provider import example_options

RENTED, SIMULATED = example_options()

DEMO = Command(
    "demo",
    "command:demo",
    "Train a small network here, in a minute",
    text="Train a small network by Chainer, PyTorch or NumPy, on a cluster that is deleted then.",
)
UP = Command(
    "up",
    "command:up",
    "Start a cluster, here or on other machines",
    text="""Start a cluster of RANKS ranks: on this machine, on your hosts, or on rented nodes.

    RANKS defaults to all slots, or to the number of GPUs. Without options, a cluster that is up
    keeps what it has, and a new one starts on this machine.
    What nodes cost is shown first, and nothing is bought before you agree.""",
    examples=[
        "workbench up 2",
        "workbench up --host '10.0.0.4 slots=1' --host '10.0.0.5 slots=1'",
        f"workbench up {RENTED} --nodes 4 --gpus 1 --budget 5 --ttl 4h",
    ],
)
RESIZE = Command(
    "resize",
    "command:resize",
    "Change the number of ranks or nodes",
    text="""Change a cluster's number of RANKS, or its number of nodes.

    What more nodes cost is shown first, and nothing is bought before you agree.""",
    examples=["workbench resize 4", "workbench resize --nodes 8 --at epoch"],
)
DELETE = Command(
    "delete",
    "command:delete",
    "Delete a cluster and its nodes",
    text="""Delete a cluster with its nodes, and stop its unfinished runs.

    Runs and their results stay in the store.""",
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
    examples=[
        "workbench run --ranks 2 train.py --epoch 3",
        "workbench run --param lr=0.1 --compress bf16 train.py",
        "workbench run -m package.train --epoch 3",
        "workbench run job.toml --background",
        "workbench run --resume digits --ranks 3",
    ],
    context_settings={"allow_interspersed_args": False},
)
SWEEP_COMMAND = Command(
    "sweep",
    "sweep:sweep",
    "Try a script with many parameters",
    text="""Run SCRIPT many times, each time with other values of its parameters, and name the best.

    Each --param with several values is searched: a list, uniform(LOW, HIGH), log(LOW, HIGH),
    int(LOW, HIGH) or LOW..HIGH. A trial is a run: it has a curve, and survives what a run survives.
    SCRIPT may be a job file, whose parameters may be lists and ranges, too.
    With --resume, a sweep continues that was stopped or is over.""",
    examples=[
        "workbench sweep --minimize loss --param 'lr=[0.1,0.2,0.3]' train.py",
        "workbench sweep --trials 40 --minimize loss --param 'lr=log(1e-4,1)' fit.py",
        "workbench sweep --resume train --trials 60",
    ],
    context_settings={"allow_interspersed_args": False},
)
SWEEPS = Command(
    "sweeps",
    "sweep:sweeps",
    "List sweeps, or their trials",
    text="List the sweeps, or the trials of NAMES, the best first.",
)
STOP = Command(
    "stop",
    "command:stop",
    "Stop a run or a sweep",
    text="Stop RUN, or a sweep, after its current iteration. Without RUN, stop the current run.",
)
STATUS = Command(
    "status",
    "command:status",
    "Show clusters, nodes, ranks and runs",
    text="Show clusters, their nodes and costs, their ranks, and unfinished runs.",
)
LOGS = Command(
    "logs",
    "command:logs",
    "Print what a run or the supervisor wrote",
    text="""Print what the ranks wrote in RUN, or in the newest run. Each attempt of a run that
    continued has a heading.

    --supervisor prints what the cluster's supervisor did instead: which worlds of ranks it
    started, which nodes it bought or lost, and why a run ended.""",
    examples=["workbench logs -f", "workbench logs --supervisor"],
)
RUNS = Command(
    "runs",
    "command:runs",
    "List, compare or delete runs",
    text="""List the newest runs. With NAMES (or ids), compare these runs side by side; with one,
    show its source, arguments, notebook, git commit and files, too.

    Here, as everywhere, a name means its newest run, and NAME~1 the one before. In a notebook the
    runs of that notebook come first.""",
    examples=[
        "workbench runs --plot curves.png slow quick",
        "workbench runs --delete --older-than 30d --keep 10",
    ],
)
BANDWIDTH = Command(
    "bandwidth",
    "performance:bandwidth_command",
    "Measure links, allreduce, disks and devices",
    text="Measure a cluster: links between nodes, allreduce over sizes, disks and devices.",
)
PLAN_COMMAND = Command(
    "plan",
    "performance:plan_command",
    "Predict time and cost for more nodes",
    text="""Predict time and cost of an epoch for numbers of nodes of each type.

    The prediction uses the newest measured run, and the measured or rated network.""",
    examples=[f"workbench plan {RENTED} --gpus 1", f"workbench plan {SIMULATED} --max-nodes 8"],
)
OFFERS = Command(
    "offers",
    "cloud_commands:offers",
    "List node types that fit, with prices",
    text="List the node types that fit, their prices and your quota. Nothing is started.",
    examples=[f"workbench offers {RENTED} --nodes 4 --gpus 1"],
)
EXTEND = Command(
    "extend",
    "cloud_commands:extend",
    "Extend the time to live of a cluster",
    text="Extend the time to live of a cluster by DURATION, such as 4h.",
    examples=["workbench extend 4h"],
)
KEEP = Command(
    "keep",
    "cloud_commands:keep",
    "Keep the nodes of an idle cluster",
    text="""Keep the nodes of a cluster that has nothing to do, which are given back otherwise.

    They stay for the idle time of the cluster (--idle of workbench up) from now on.""",
)
SWEEP = Command(
    "sweep-leaks",
    "cloud_commands:sweep_leaks",
    "Find and delete forgotten cloud resources",
    text="""List everything with workbench's tags in your account, and delete it if you agree.

    Clusters that are up here are listed and kept. Resources of other people in
    the same account are kept too, unless you add --others.""",
)
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
                text=f"""Make an image of a node after its setup, without its keys, lease and logs.

    The node keeps running. If you have none, start one with
    `workbench up {RENTED} --nodes 1 --cluster bake`, and delete it later with
    `workbench delete --cluster bake`.""",
                place="image bake",
            ),
            Command(
                "delete",
                "images:delete",
                "Delete an image and its snapshots",
                text="Delete the image AMI, and the snapshots that belong to it.",
                place="image delete",
            ),
        ]
    },
)
DOCTOR = Command(
    "doctor",
    "command:doctor",
    "Check this machine and your hosts",
    text="Check this machine or your hosts for problems, and print how to fix each one.",
    examples=["workbench doctor", "workbench doctor --iam node --output s3://bucket/prefix"],
)
INTERRUPT = Command(
    "interrupt",
    "cloud_commands:interrupt",
    "Take back simulated nodes, for a test",
    text="""Take back NODE, or the newest node, of simulated ones, as spot nodes are taken back.

    Use it to see how a run recovers. --history replays a recording of spot nodes: lines of
    `milliseconds,add,NODE` and `milliseconds,remove,NODE`, of `seconds,COUNT`, or of
    `hours,COUNT` with a decimal point in the hours.""",
    examples=[
        "workbench interrupt --notice 60",
        "workbench interrupt --history p3-trace.csv --skip 2h --span 2h",
    ],
)
COMPLETION = Command(
    "completion",
    "parsing:completion",
    "Set up Tab completion for your shell",
    text="""Print the script that lets Tab complete commands, options and names in your shell.

    Run one of the lines below once, then open a new shell.""",
    examples=[
        "echo 'eval \"$(workbench completion bash)\"' >> ~/.bashrc",
        "echo 'eval \"$(workbench completion zsh)\"' >> ~/.zshrc",
        "workbench completion fish > ~/.config/fish/completions/workbench.fish",
    ],
)
UNINSTALL = Command(
    "uninstall",
    "uninstall:uninstall",
    "Delete all that workbench keeps here",
    text="""Delete every cluster with its nodes, all runs, and workbench's folders on this machine.

    The package itself is removed by pip, as the last line says.""",
)

main = Commands(
    "workbench",
    text="Train on many machines: start a cluster and run a script on every MPI rank.",
    commands={
        "Start": [DEMO, UP, RESIZE, DELETE],
        "Train": [RUN_COMMAND, SWEEP_COMMAND, STOP],
        "Inspect": [STATUS, LOGS, RUNS, SWEEPS, BANDWIDTH],
        "Cost": [PLAN_COMMAND, OFFERS, EXTEND, KEEP, SWEEP, IMAGE],
        "Troubleshoot": [DOCTOR, INTERRUPT, COMPLETION, UNINSTALL],
    },
    options=[],
    examples=[
        "workbench demo                 see it work, in a minute",
        "workbench up 2                 start two ranks on this machine",
        "workbench run train.py         run a script on them",
        "workbench delete               delete the cluster",
    ],
)
main = click.version_option(package_name="dist-workbench", message="workbench %(version)s")(main)
