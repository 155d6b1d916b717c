"""Every option that shell, notebook and job file have, declared once.

The commands, the magics, job files, Tab completion and the tables of the documentation are made
from `OPTIONS`. Its order is that of the help.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from workbench.core.cluster.model import DEFAULT_CLUSTER, ResizeAt, WhenDone, check_cluster_name
from workbench.core.fleet.cost import Interruptions
from workbench.core.fleet.form import Settings
from workbench.core.fleet.provider import (
    find_provider,
    known_providers,
    own_options,
    simulated_providers,
)
from workbench.core.option import (
    CLUSTER_MAGIC,
    DATA,
    DURATION,
    DURATION_OR_OFF,
    FLAG,
    FLEET,
    JOB,
    NEEDED,
    NODES,
    NUMBER,
    PARAMETER,
    PROVIDER,
    SETTING,
    VARIABLE,
    WHOLE,
    WORD,
    Option,
    amount,
    choice,
    is_given,
    nbytes_of,
    seconds,
    text,
    whole,
)
from workbench.core.recovery.retention import FOREVER
from workbench.core.run.model import check_run_name
from workbench.core.run.other_launchers import options_here
from workbench.core.run.run_options import (
    BATCH_VARIABLE,
    BATCHES,
    CODECS,
    COMMUNICATOR_VARIABLE,
    COMMUNICATORS,
    COMPRESS_VARIABLE,
    DEFAULT_GRACE,
    DEFAULT_RETRIES,
    DOUBLE_VARIABLE,
    EVERY_VARIABLE,
    MOST_RETRIES,
    REPLAY_VARIABLE,
    REPLAYS,
)
from workbench.core.run.sweep import read_ranks
from workbench.core.supervisor.log_messages import LEVELS
from workbench.core.world.world import MAX_RANKS
from workbench.errors import InputError

TRAIN = "%dist_train"
RUN = ("run", TRAIN, JOB)
SWEEP = ("sweep", "%dist_sweep")
TRIALS = (*SWEEP, JOB)
TRIED = (*RUN, *SWEEP)
PLAN = ("plan", "%dist_plan")

# Sections of a command's help.
STOPS, EXCHANGE, CONSENT = "When it stops", "How ranks exchange gradients", "Questions"
HOW_MANY, MONEY = "How many", "Money"
TRAINED, ASSUMED = "What is trained", "Assumptions"
DELETION, INSTEAD, AWS = "Delete runs", "Instead of a run", "AWS"

CONTINUE, WAIT = "continue", "wait"
COUNT, AT_LEAST_ONE = whole(0, MAX_RANKS), whole(1, MAX_RANKS)
RUN_NAME, CLUSTER = text("NAME", check=check_run_name), text("NAME", check=check_cluster_name)
A_RUN, TEXTS = text("RUN"), "a list of texts"
PLACE = "a folder, or s3://bucket/prefix"
RATE = amount("GBITS", "Gbit/s")
PICTURE, REGION = text("FILE.png", check=Path), text("NAME")


def _path(word: str) -> str:
    if not word:
        raise ValueError
    return word


def _limit(word: str) -> int:
    if int(word) < 1:
        raise ValueError
    return int(word)


def _age(word: str) -> float:
    return 0.0 if word == FOREVER else seconds(word)


def _size(word: str) -> int:
    return 0 if word == FOREVER else nbytes_of(word)


_COMMON = (
    # A run. What only a job file has is not typed.
    Option("script", "The script to run, relative to the job file's folder.",
           text("SCRIPT", "the path of a script", _path), on=("run", "sweep", JOB),
           typed="SCRIPT",
           offers="files", example="train.py"),
    Option("arguments", "Arguments of the script.", WORD, on=("run", "sweep", JOB),
           typed="ARGUMENTS",
           many=True, offers="files", example=["--epoch", "3"]),
    Option("ranks", "Number of ranks to run on.", AT_LEAST_ONE, on=RUN, shown="all",
           example=2),
    Option("is_module", "The script is a module of a package, as in python -m.", FLAG,
           on=("run", TRAIN, *SWEEP), typed="-m"),
    Option("name", "Name of the run.", RUN_NAME, on=TRIED, shown="the script's name, or cell",
           is_kept=True, example="digits on two ranks"),
    Option("parameters", "Set a variable on every rank, such as lr=0.1; repeatable.", PARAMETER,
           on=RUN, typed="--param", many=True, offers="parameters", example={"lr": 0.1}),
    # A sweep.
    Option("parameters",
           "Search a variable: lr=[0.1,0.2], lr=log(1e-3,1), n=1..8; repeatable.",
           PARAMETER, on=SWEEP, typed="--param", many=True, offers="parameters"),
    Option("trials", "Number of trials.", AT_LEAST_ONE, on=TRIALS,
           shown="all combinations of the listed values", example=40),
    Option("minimize", "The reported value whose smallest last one is the best.", text("VALUE"),
           on=TRIALS, example="loss"),
    Option("maximize", "The reported value whose largest last one is the best.", text("VALUE"),
           on=TRIALS, example="accuracy"),
    Option("ranks_per_trial", "Ranks of each trial: 2, or 1..4 as room allows.",
           text("N", "a number of ranks, or two such as 1..4", read_ranks), on=TRIALS,
           shown="all", example="1..4"),
    Option("sampler", "Grid, random, or Optuna's, such as tpe.", text("NAME"), on=TRIALS,
           shown="random with --trials", example="random"),
    Option("pruner", "End poor trials early by a pruner of Optuna, such as median.", text("NAME"),
           on=TRIALS, example="median"),
    Option("seed", "Seed of what is chosen by chance.", whole(0, 2**31 - 1), on=TRIALS,
           shown="0", example=7),
    Option("sweep_limit", "Begin no trial after this time.", DURATION, on=TRIALS,
           shown="no limit", example="2h"),
    Option("sweep_budget",
           "Total budget: begin no trial that would exceed it.",
           amount("$", "$ in all"), on=TRIALS, shown="no limit", example=20),
    Option("resume", "Continue this sweep, with --trials in all.", text("SWEEP"), on=SWEEP),
    Option("names", "Show the trials of these sweeps.", text("NAME"), on=("sweeps",),
           typed="NAMES", many=True),
    Option("study", "Write the trials as a journal that Optuna opens.", text("FILE", check=Path),
           on=("sweeps",), offers="files"),
    Option("environment", "Environment variables of every rank.", VARIABLE, on=(JOB,), many=True,
           example={"DATA_ROOT": "data"}),
    Option("resume", "Continue this run, which has ended, from its newest snapshot.", A_RUN,
           on=("run", TRAIN), offers="runs"),
    Option("note", "What this run is for; lists of runs show it.", text("TEXT"), on=TRIED,
           example="twice the batch"),
    Option("background", "Return without waiting for the run.", FLAG, on=("run", TRAIN, *SWEEP)),
    Option("grace", "Time that ranks have to end after a request to stop.", DURATION, on=TRIED,
           section=STOPS, shown=f"{DEFAULT_GRACE:g}s", example="5s"),
    Option("retries", "How often a failed run is tried again from its snapshot.",
           whole(0, MOST_RETRIES), on=TRIED, section=STOPS, shown=str(DEFAULT_RETRIES), example=3),
    Option("restart", "Start a script again on new ranks; it loads its own newest checkpoint.",
           FLAG, on=TRIED, section=STOPS, is_kept=True, example=True),
    Option("snapshot_every", "Longest time between two snapshots.",
           DURATION, on=TRIED, section=STOPS, shown="chosen by their cost",
           variable=EVERY_VARIABLE, example="10s"),
    Option("wall_clock_limit", "Stop the run after this time.", DURATION, on=("run", JOB),
           section=STOPS, shown="no limit; 7d for a job file whose nodes cost", example="90m"),
    *(
        Option("when_done", "Keep, release or delete the nodes when no run is left.",
               choice((*WhenDone,), word="WHAT", kind=WhenDone), on=on, section=STOPS,
               shown=shown, example=WhenDone.RELEASE)
        for on, shown in (
            ((*RUN[:-1], *SWEEP), "keep"),
            ((JOB,), "release if it rents them, else keep"),
        )
    ),
    # What ranks read.
    Option("communicator", "Use our communicator: auto, ring, hierarchical, mpi.",
           choice(COMMUNICATORS, "communicator"), on=TRIED, section=EXCHANGE,
           variable=COMMUNICATOR_VARIABLE, example="auto"),
    Option("compress", "Compress gradients: fp16, bf16, int8, topk, powersgd, or none.",
           choice(CODECS, "compression"), on=TRIED, section=EXCHANGE, variable=COMPRESS_VARIABLE,
           example="powersgd"),
    Option("double_buffering",
           "Overlap the exchange with the next step; gradients are one step old.",
           FLAG, on=TRIED, section=EXCHANGE, variable=DOUBLE_VARIABLE, example=True),
    Option("keep_batch",
           "Batch to keep on another size: global or per-rank.",
           choice(BATCHES, "batch to keep"), on=TRIED, section=EXCHANGE, shown="global",
           variable=BATCH_VARIABLE, example="per-rank"),
    Option("replay", "Repeat earlier cells on new ranks: on or off.", choice(REPLAYS, "replay"),
           on=(TRAIN,), shown="on", variable=REPLAY_VARIABLE),

    # Nodes.
    *(
        Option(place.flag, place.summary, FLAG, section=PROVIDER,
               on=("up", "offers", *PLAN) if place.is_charged else ("up",))
        for place in known_providers() if place.flag
    ),
    Option("provider", "Use nodes of this provider, by its name.",
           text("NAME", "the name of a provider", check=lambda name: find_provider(name).name),
           on=("up", "offers", *PLAN, "sweep-leaks", JOB), section=PROVIDER, offers="providers",
           example="hosts"),
    Option("settings", "Give the provider an option of its own; repeatable.", SETTING,
           on=("up", "offers", JOB), typed="--set", section=PROVIDER, many=True,
           example={"name": "value"}),
    Option("host_file", "Host file, as for mpiexec, or hosts separated by commas.",
           text("FILE", "the path of a host file"),
           on=("up", "doctor", JOB), typed="--hosts", section=PROVIDER, offers="files",
           example="hosts.txt"),
    Option("hosts", "One of your hosts, as a line of a host file; repeatable.",
           text("'ADDRESS slots=N'", TEXTS),
           on=("up", "doctor", JOB), typed="--host", section=PROVIDER, many=True,
           example=["172.31.41.13 slots=1"]),
    Option("region", "Region in which nodes are bought.", REGION, on=(*FLEET, *PLAN),
           section=PROVIDER, shown="the provider's own", example="us-east-1"),
    Option("region", "Region that has the image.", REGION, on=("image delete",), default="",
           shown="the provider's own"),
    Option("region", "Search only this region.", REGION, on=("sweep-leaks",), default="",
           shown="all regions"),
    *(
        Option(place.flag, what, value, on=(on,))
        for place in simulated_providers()
        for what, value, on in (
            ("Look at simulated nodes instead.", FLAG, "sweep-leaks"),
            ("Start N simulated nodes, which cost nothing, and wait.", WHOLE, CLUSTER_MAGIC),
        )
    ),
    Option("ranks", "New number of ranks.", WHOLE, on=("up", "resize", "%dist_resize"),
           typed="RANKS"),
    Option("nodes", "Number of nodes; 0 releases all and keeps the cluster's definition.", COUNT,
           on=(*FLEET,), section=HOW_MANY, shown="1, or all hosts", example=4),
    Option("nodes", "Number of nodes; 0 releases all and keeps the cluster's definition.", COUNT,
           on=("resize", "%dist_resize")),
    Option("min_nodes",
           "Start and keep running with this many while others boot; 0 if all may go when idle.",
           COUNT, on=FLEET, section=HOW_MANY, shown="1", example=2),
    Option("max_nodes", "Scale up to this many nodes while runs are queued.", AT_LEAST_ONE,
           on=FLEET, section=HOW_MANY, shown="no growth", example=8),
    Option("slots", "Ranks per node.", AT_LEAST_ONE, on=FLEET, section=HOW_MANY,
           shown="1 per GPU, or per core without GPUs", example=1),
    Option("at", "When a run moves: step, epoch (at its end) or end.",
           choice((*ResizeAt,), word="WHEN", kind=ResizeAt), on=("resize", "%dist_resize"),
           default=ResizeAt.STEP),
    Option("needs", "What each node needs at least; see the fields below.",
           text("TABLE", "a table"), on=(JOB,), example={"gpus": 1}),
    Option("gpus", "Minimum number of GPUs per node.", COUNT, on=(*NEEDED, "%dist_plan"),
           section=NODES, example=1),
    Option("gpu_memory", "Minimum memory per GPU.", amount("GIB", "GiB"), on=NEEDED, section=NODES,
           example=16),
    Option("memory", "Minimum memory per node.", amount("GIB", "GiB"), on=NEEDED, section=NODES,
           example=32),
    Option("vcpus", "Minimum number of vCPUs per node.", COUNT, on=NEEDED, section=NODES,
           example=8),
    Option("network", "Minimum sustained network bandwidth per node, in Gbit/s.",
           amount("GBITS", "Gbit/s that are sustained"), on=(*NEEDED, "%dist_plan"), section=NODES,
           example=5),
    Option("types", "Allow only this instance type; repeatable.", text("TYPE", TEXTS),
           on=(*NEEDED, "%dist_plan"), typed="--type", section=NODES, many=True,
           example=["g4dn.xlarge"]),
    Option("zones", "Allow only this zone; repeatable.", text("ZONE", TEXTS), on=NEEDED,
           typed="--zone", section=NODES, many=True, example=["us-east-1a"]),
    Option("across_zones", "Add nodes in other zones too; traffic between zones is billed.", FLAG,
           on=("up", "resize", "%dist_resize", JOB), section=NODES, example=True),
    Option("max_price", "Max price of all nodes together, per hour.",
           amount("$/H", "$/h for all nodes together"), on=FLEET, section=MONEY, shown="no limit",
           example=2.5),
    Option("budget",
           "Total budget: save the runs and release the nodes before they have cost more.",
           amount("$", "$ in all"), on=FLEET, section=MONEY, shown="no limit", example=20),
    Option("ttl", "Time to live: save the runs and release the nodes by then; 0 means never.",
           DURATION, on=FLEET, section=MONEY, shown="8h for paid nodes, else never", example="8h"),
    Option("idle",
           "Give the nodes back after this time with nothing to do; off means never.",
           DURATION_OR_OFF, on=FLEET, section=MONEY, shown="15m for rented nodes, else off",
           example="30m"),
    Option("data", "Copy a folder or s3://bucket/prefix to every node.", text("PLACE", PLACE),
           on=("up", JOB), section=DATA, example="s3://bucket/digits"),
    Option("output", "Copy what runs write to this folder or s3://bucket/prefix.",
           text("PLACE", PLACE), on=("up", JOB), section=DATA, example="s3://bucket/results"),
    Option("snapshots",
           "Copy snapshots to this folder that all nodes share, or to s3://bucket/prefix.",
           text("PLACE", "a folder that all nodes share, or s3://bucket/prefix"), on=("up", JOB),
           section=DATA, shown="this computer", example="s3://bucket/snapshots"),
    Option("prepare", "Run this script on each node first.",
           text("FILE", "the path of a shell script"), on=("up", JOB), section=DATA,
           offers="files", example="prepare.sh"),
    Option("shrink", "After the loss of a node: continue with the others, or wait for new ones.",
           choice((CONTINUE, WAIT), word="CHOICE",
                  said='"continue" with the nodes that are left or "wait" for others'),
           on=(JOB,), example=CONTINUE),
    Option("node", "Which node.", text("ID"), on=("image bake",), default="", shown="the head",
           offers="nodes"),
    Option("name", "Name of the image.", text("NAME"), on=("image bake",), default="",
           shown="workbench-DATE-TIME"),
    Option("others", "Also delete resources of other people's clusters.", FLAG,
           on=("sweep-leaks",)),
    Option("node", "Reclaim this node.", text("NODE"), on=("interrupt", "%dist_interrupt"),
           typed="NODE", default="", shown="the newest", offers="nodes"),
    Option("seconds", "How much longer it lives.", DURATION, on=("extend",), typed="DURATION",
           required=True),
    Option("image", "The image to delete.", text("AMI"), on=("image delete",), typed="AMI",
           required=True),
    Option("notice", "Time from notice to the end of the node.", DURATION,
           on=("interrupt", "%dist_interrupt"), default=0.0, shown="no notice"),
    Option("history", "Take and give nodes as in this recording of spot nodes.",
           text("FILE", "the path of a recording"), on=("interrupt", "%dist_interrupt"),
           default=""),
    Option("speed", "Replay the recording so many times as fast.", NUMBER,
           on=("interrupt", "%dist_interrupt"), default=20.0, example=30),
    Option("skip", "Leave out so much of the recording first.", DURATION,
           on=("interrupt", "%dist_interrupt"), default=0.0, shown="nothing"),
    Option("span", "Replay so much of the recording.", DURATION,
           on=("interrupt", "%dist_interrupt"), default=0.0, shown="all of it"),

    # Plans and measurements.
    Option("run", "Plan for this run.", A_RUN, on=("plan",), section=TRAINED,
           shown="the newest measured run", offers="runs"),
    Option("run", "Plan for this run.", A_RUN, on=("%dist_plan",), typed="RUN", many=True,
           shown="the newest measured run", offers="runs"),
    Option("sweep", "Divide ranks among N trials of this run.", AT_LEAST_ONE, on=PLAN,
           section=TRAINED, shown="plan an epoch"),
    Option("step", "Compute time of one step, instead of a run's.", DURATION, on=PLAN,
           section=TRAINED),
    Option("gradients", "Size of the gradients, instead of a run's.",
           text("BYTES", check=nbytes_of), on=PLAN, section=TRAINED),
    Option("batch", "Examples in one rank's step, instead of a run's.", WHOLE, on=PLAN,
           section=TRAINED),
    Option("examples", "Examples in one epoch, instead of a run's.", WHOLE, on=PLAN,
           section=TRAINED),
    Option("gpu", "GPU on which the step was measured.", text("NAME"), on=PLAN, section=TRAINED,
           shown="the run's"),
    Option("max_nodes", "Largest number of nodes to plan for.", WHOLE, on=PLAN, section=ASSUMED,
           shown="64, or by --sweep"),
    Option("total_batch", "Keep the global batch size constant.", FLAG, on=PLAN, section=ASSUMED),
    Option("plain", "Plan without compression and overlap, as ChainerMN does.", FLAG, on=PLAN,
           section=ASSUMED),
    Option("interruptions", "Interruptions of one node per hour.", NUMBER, on=PLAN,
           section=ASSUMED, default=Interruptions().rate),
    Option("plot", "Save a picture of time and cost.", PICTURE, on=("plan",), offers="files"),
    Option("rating", "Rated network bandwidth of the nodes, in Gbit/s.", RATE,
           on=("bandwidth", "%dist_bandwidth")),
    Option("last", "Show the last measurement without measuring again.", FLAG, on=("bandwidth",)),
    Option("plot", "Save a picture of the result.", PICTURE, on=("bandwidth",), offers="files"),

    # Runs that there are.
    Option("names", "Compare these runs in one picture.", text("NAME"), on=("runs", "%dist_runs"),
           typed="NAMES", many=True, offers="runs"),
    Option("run", "Stop this run.", A_RUN, on=("stop",), typed="RUN", offers="unfinished"),
    Option("run", "Print what this run's ranks wrote.", A_RUN, on=("logs",), typed="RUN",
           offers="runs"),
    Option("run", "Stop this run.", A_RUN, on=("%dist_stop",), typed="RUN", many=True,
           shown="the current run", offers="unfinished"),
    Option("limit", "Number of runs to list.",
           text("N", "a whole number of at least 1", check=_limit), on=("runs", "%dist_runs"),
           default=20),
    Option("all", "Also list cells that only printed.", FLAG, on=("runs", "%dist_runs")),
    Option("plot", "Save a picture of the curves of NAMES.", PICTURE, on=("runs",),
           offers="files"),
    Option("as_csv", "Print every point of NAMES as a table.", FLAG, on=("runs",), typed="--csv"),
    Option("examples", "Print how often each example of an epoch was visited.", FLAG, on=("runs",)),
    Option("delete", "Delete runs that have ended: NAMES, or those selected below.", FLAG,
           on=("runs", "%dist_runs"), section=DELETION),
    Option("older", "Select runs that ended longer ago than this, such as 30d.", DURATION,
           on=("runs", "%dist_runs"), typed="--older-than", section=DELETION),
    Option("larger", "Select runs that take more space than this, such as 1GB.",
           text("SIZE", check=nbytes_of), on=("runs", "%dist_runs"), typed="--larger-than",
           section=DELETION),
    Option("keep", "Select all runs except the N newest.", WHOLE, on=("runs", "%dist_runs"),
           section=DELETION),
    Option("yes", "Do not ask before deleting.", FLAG, on=("runs",), section=DELETION),
    Option("retain",
           "From now on, delete runs this long after their end (90d); 'all' keeps them.",
           text("DURATION", check=_age), on=("runs",), section=DELETION),
    Option("retain_size",
           "From now on, delete the oldest runs beyond this total size; 'all' keeps them.",
           text("SIZE", check=_size), on=("runs",), section=DELETION),
    Option("is_followed", "Follow the output until the run has ended.", FLAG, on=("logs",),
           typed="-f --follow"),
    Option("rank", "Print one rank only.", WHOLE, on=("logs",), shown="all ranks"),
    Option("traceback", "Print the failed rank's traceback with all frames.", FLAG, on=("logs",)),
    Option("supervisor", "Print what the supervisor did.", FLAG, on=("logs",), section=INSTEAD),
    Option("level", "Lowest level that --supervisor prints: debug, info, warning, error.",
           choice(LEVELS, "level", word="LEVEL"), on=("logs",), section=INSTEAD, default="info"),
    Option("controller", "Print the raw logs of ipyparallel's controller.", FLAG, on=("logs",),
           section=INSTEAD),
    Option("engines", "Print the raw logs of mpiexec and the engines.", FLAG, on=("logs",),
           section=INSTEAD),

    # What many have, last.
    Option("shell", "The shell to set up.", choice(("bash", "zsh", "fish"), "shell"),
           on=("completion",), typed="SHELL", required=True),
    Option("ranks", "Number of ranks to run on.", WHOLE, on=("demo",), shown="2"),
    Option("keep", "Leave the cluster up afterwards.", FLAG, on=("demo",)),
    Option("name", "Name of the cell; a later one of this name replaces it.", text("NAME"),
           on=("%dist_setup",), shown="cell"),
    Option("clear", "Remove all set-up cells of the cluster.", FLAG, on=("%dist_setup",)),
    Option("oversubscribe", "Allow more ranks than cores.", FLAG,
           on=(*TRIED, "up", "resize", "%dist_resize"), section=HOW_MANY, example=True),
    Option("accept_keys",
           "Accept host keys with these fingerprints; repeatable, or separated by commas.",
           text("FINGERPRINT"), on=("up", "run", "sweep", "doctor"), section=CONSENT, many=True),
    Option("all_checks", "Show every check of every host.", FLAG, on=("doctor",), typed="--all"),
    Option("as_json", "Print JSON.", FLAG, typed="--json",
           on=("status", "runs", "sweeps", "bandwidth", "plan", "offers", "sweep-leaks", "doctor")),
    Option("yes",
           "Do not ask before anything is bought or deleted. Host keys are still confirmed.",
           FLAG,
           on=("up", "resize", "run", "sweep", "sweep-leaks", "image bake", "image delete",
               "uninstall"),
           section=CONSENT),
    Option("purge", "Remove all that was installed on hosts by --equip, too.", FLAG,
           on=("delete", "%dist_delete")),
    Option("yes", "Do not ask; a cluster is deleted without a question anyway.", FLAG,
           on=("delete", "%dist_delete")),
    Option("yes", "Delete; without it, only list what would be deleted.", FLAG,
           on=("%dist_runs",)),
    Option("yes", "Buy more nodes; without it, only show what they cost.", FLAG,
           on=("%dist_resize",)),
    Option("no_wait", "Return without waiting.", FLAG,
           on=("up", "resize", "delete", "stop", "image bake")),
    Option("wait", "Wait until it is done.", FLAG, on=("%dist_resize", "%dist_delete")),
    Option("cluster", "Name of the cluster.", CLUSTER, default=DEFAULT_CLUSTER, offers="clusters",
           on=("up", "resize", "delete", "stop", "logs", "bandwidth", "plan", "extend", "keep",
               "doctor", "image bake", "interrupt")),
    Option("cluster", "Name of the cluster.", CLUSTER, on=("run", "sweep", JOB),
           shown=DEFAULT_CLUSTER, offers="clusters", example="default"),
    Option("cluster", "Name of the cluster.", CLUSTER, on=("status",), shown="all clusters",
           offers="clusters"),
    Option("cluster", "Name of the cluster.", CLUSTER, offers="clusters",
           shown="the one of the last %dist_cluster",
           on=(CLUSTER_MAGIC, TRAIN, "%dist_sweep", "%dist_setup", "%dist_status", "%dist_plan",
               "%dist_stop", "%dist_resize", "%dist_keep", "%dist_interrupt", "%dist_bandwidth",
               "%dist_delete", "%dist_doctor")),
    Option("iam", "Print an IAM policy: person, node or baker; --iam alone is yours, as a person.",
           choice(("person", "node", "baker"), "policy", word="WHO"), on=("doctor",), section=AWS,
           alone="person"),
    Option("bucket", "S3 prefix that the node's policy allows nodes to write to.",
           text("s3://…"), on=("doctor",), typed="--output", section=AWS, default="",
           shown="no bucket"),
)  # fmt: skip
# The settings of providers. One whose name is taken is given as one of `settings`.
_TAKEN = {one.name for one in _COMMON if {*one.on} & {*FLEET, *NEEDED}}
_OWN = tuple(one for one in own_options() if one.name not in _TAKEN)
OPTIONS = (*_COMMON, *_OWN)


def options_of(place: str) -> tuple[Option, ...]:
    """Return the options of a command, of a magic, or of a table of a job file, in order."""
    return tuple(one for one in OPTIONS if place in one.on)


def spellings_of(place: str) -> set[str]:
    """Return how the options of a command or of a magic are typed; none for positional ones."""
    return {name for one in options_of(place) if not one.is_word for name in one.spellings}


def refuse_other_options(command: str, place: str, words: Sequence[str]) -> None:
    """Say what options of other launchers are here, if there are any.

    Args:
        command: The command that does the same as theirs.
        place: The command or the magic that was typed.

    Raises:
        InputError: There are.
    """
    known = [one for one in options_of(place) if not (one.is_word or one.is_flag)]
    if said := options_here(command, words, {name for one in known for name in one.spellings}):
        raise InputError(said)


def variables(given: Mapping[str, object]) -> tuple[tuple[str, str], ...]:
    """Return the environment variables in which ranks read a run's options.

    Args:
        given: Values by name, also of other options; None or False for one that was left out.
    """
    return tuple(
        (one.variable, one.written(given[one.name]))
        for one in OPTIONS
        if one.variable and is_given(given.get(one.name))
    )


def collect_settings(given: Mapping[str, Any]) -> Settings:
    """Return the settings of providers among the options of a line, or the fields of a job file."""
    own = {one.name: given[one.name] for one in _OWN if is_given(given.get(one.name))}
    return tuple((own | dict(given.get("settings") or {})).items())
