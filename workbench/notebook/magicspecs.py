"""The options of each magic, for its parser, for ``?`` and for Tab completion."""

from __future__ import annotations

import argparse
import functools
from collections.abc import Callable
from typing import Any

from workbench.core.cluster.model import check_cluster_name
from workbench.core.cluster.resize_time import ResizeAt, resize_time
from workbench.core.option_values import nbytes_of, parameter, seconds
from workbench.core.performance.interruptions import Interruptions
from workbench.core.recovery.retention import parse_size
from workbench.core.run.model import DEFAULT_GRACE, DEFAULT_RETRIES
from workbench.errors import Interrupted
from workbench.notebook.chosen_cluster import chosen_cluster
from workbench.notebook.options import Magic, MagicOption, Options, amount, whole
from workbench.view.option_help import HELP


def _number(name: str, **settings: Any) -> MagicOption:
    return MagicOption(name, "N", read=whole(name), **settings)


def _rate(name: str, value: str, **settings: Any) -> MagicOption:
    return MagicOption(name, value, read=amount(name), **settings)


CLUSTER = MagicOption(
    "--cluster",
    "NAME",
    read=check_cluster_name,
    default=chosen_cluster,
    shown="the one of the last %dist_cluster",
    offers="clusters",
)
OVERSUBSCRIBE = MagicOption("--oversubscribe")
WAIT = "Wait until it is done."
TRAIN = (
    _number("--ranks", shown="all"),
    MagicOption("-m", dest="is_module"),
    MagicOption("--name", "NAME", shown="cell, or the script's name"),
    MagicOption("--param", "KEY=VALUE", read=parameter, many=True, dest="parameters",
           offers="parameters"),
    MagicOption("--resume", "RUN", offers="runs"),
    MagicOption("--background"),
    OVERSUBSCRIBE,
    MagicOption("--grace", "SECONDS", read=seconds, shown=f"{DEFAULT_GRACE:g}s"),
    _number("--retries", shown=str(DEFAULT_RETRIES)),
    MagicOption("--restart"),
    MagicOption("--communicator", "NAME", offers="communicators"),
    MagicOption("--compress", "NAME", offers="codecs"),
    MagicOption("--double-buffering"),
    MagicOption("--keep-batch", "NAME", offers="batches", shown="global"),
    MagicOption("--replay", "CHOICE", offers="replays", shown="on"),
    CLUSTER,
)  # fmt: skip
PLAN = (
    MagicOption("run", "RUN", "Plan for this run.", many=True, offers="runs",
           shown="the newest measured run"),
    MagicOption("--ec2"),
    MagicOption("--rehearsal"),
    MagicOption("--region", "NAME", default="", shown="from your AWS config"),
    MagicOption("--type", "TYPE", many=True, dest="types"),
    _number("--gpus", default=0),
    _rate("--network", "GBITS", default=0.0),
    _number("--max-nodes", default=64),
    MagicOption("--plain"),
    MagicOption("--total-batch"),
    _rate("--interruptions", "R", default=Interruptions().rate),
    MagicOption("--step", "SECONDS", read=seconds, default=0.0),
    MagicOption("--gradients", "BYTES", read=nbytes_of, default=0.0),
    _number("--batch", default=0),
    _number("--examples", default=0),
    MagicOption("--gpu", "NAME", default="", shown="the run's"),
    CLUSTER,
)  # fmt: skip

MAGICS = {
    "dist_cluster": Magic(
        ("%dist_cluster [OPTIONS]",),
        (
            _number("--rehearsal", what="Start N simulated nodes, which cost nothing, and wait."),
            _rate("--link", "GBITS", shown="no limit"),
            CLUSTER,
        ),
        ("%dist_cluster", "%dist_cluster --rehearsal 4 --link 0.2 --cluster spot"),
        "The cells below use the cluster that was last named here (default: 'default').",
    ),
    "dist_train": Magic(
        (
            "%%dist_train [OPTIONS]",
            "%dist_train [OPTIONS] script.py [ARGUMENTS]",
            "%dist_train --resume RUN [OPTIONS]",
        ),
        TRAIN,
        (
            "%%dist_train --ranks 2 --name digits --param lr=0.1",
            "%dist_train --compress bf16 train.py --epoch 3",
        ),
        "The cluster is started if necessary. Words after the script's name are passed to it.\n"
        "With --resume, the cell or the script replaces the run's source, if there is one.",
    ),
    "dist_setup": Magic(
        ("%%dist_setup [OPTIONS]", "%dist_setup --clear"),
        (
            MagicOption("--name", "NAME", "Name of the cell; a later one of this name replaces it.",
                   shown="cell"),
            MagicOption("--clear", what="Remove all set-up cells of the cluster."),
            CLUSTER,
        ),
        ("%%dist_setup --name imports", "%dist_setup --clear"),
    ),
    "dist_status": Magic(
        ("%dist_status [OPTIONS]",),
        (CLUSTER,),
        ("%dist_status", "%dist_status --cluster spot"),
    ),
    "dist_runs": Magic(
        ("%dist_runs [OPTIONS] [NAME]...", "%dist_runs --delete [OPTIONS] [NAME]..."),
        (
            MagicOption("names", "NAME", "Compare these runs in one picture.", many=True,
                   offers="runs"),
            _number("--limit", default=20),
            MagicOption("--all"),
            MagicOption("--delete"),
            MagicOption("--older-than", "DURATION", read=seconds, dest="older"),
            MagicOption("--larger-than", "SIZE", read=parse_size, dest="larger"),
            _number("--keep"),
            MagicOption("--yes", what="Delete; without it, only list what would be deleted."),
        ),
        ("%dist_runs slow quick", "%dist_runs --delete --older-than 30d --keep 10 --yes"),
        "A name means its newest run, in this notebook first; NAME~1 means the one before.",
    ),
    "dist_plan": Magic(
        ("%dist_plan [OPTIONS] [RUN]",),
        PLAN,
        ("%dist_plan --rehearsal --max-nodes 8", "%dist_plan --ec2 --gpus 1 digits"),
    ),
    "dist_stop": Magic(
        ("%dist_stop [OPTIONS] [RUN]",),
        (
            MagicOption("run", "RUN", "Stop this run.", many=True, offers="unfinished",
                   shown="the current run"),
            CLUSTER,
        ),
        ("%dist_stop", "%dist_stop digits"),
    ),
    "dist_resize": Magic(
        ("%dist_resize [OPTIONS] N", "%dist_resize [OPTIONS] --nodes N"),
        (
            MagicOption("ranks", "N", "New number of ranks.", read=whole("the number of ranks")),
            _number("--nodes"),
            MagicOption("--at", "WHEN", read=resize_time, default=ResizeAt.STEP,
                   offers="resize times"),
            MagicOption("--across-zones"),
            MagicOption("--yes", what="Buy more nodes; without it, only show what they cost."),
            OVERSUBSCRIBE,
            MagicOption("--wait", what=WAIT),
            CLUSTER,
        ),
        ("%dist_resize 4 --wait", "%dist_resize --nodes 8 --at epoch --yes --cluster spot"),
    ),
    "dist_interrupt": Magic(
        ("%dist_interrupt [OPTIONS] [NODE]",),
        (
            MagicOption("node", "NODE", "Reclaim this node.", default="", shown="the newest",
                   offers="nodes"),
            MagicOption("--notice", "SECONDS", read=seconds, default=0.0, shown="no notice"),
            CLUSTER,
        ),
        ("%dist_interrupt --notice 120 --cluster spot", "%dist_interrupt r-000002"),
    ),
    "dist_bandwidth": Magic(
        ("%dist_bandwidth [OPTIONS]",),
        (_rate("--rating", "GBITS"), CLUSTER),
        ("%dist_bandwidth", "%dist_bandwidth --rating 10 --cluster spot"),
        "It takes less than two minutes on eight nodes. Stop ends it between two measurements.",
    ),
    "dist_delete": Magic(
        ("%dist_delete [OPTIONS]",),
        (
            MagicOption("--yes", what=HELP["delete --yes"]),
            MagicOption("--wait", what=WAIT),
            CLUSTER,
        ),
        ("%dist_delete", "%dist_delete --wait --cluster spot"),
        "Unfinished runs are stopped. All runs and their results are kept.",
    ),
    "dist_doctor": Magic(
        ("%dist_doctor [OPTIONS]",),
        (CLUSTER,),
        ("%dist_doctor", "%dist_doctor --cluster spot"),
    ),
}  # fmt: skip


def parser(magic: str) -> Options:
    """Return the parser of a magic's line.

    Args:
        magic: Its name, with its percent signs.
    """
    return Options(magic, MAGICS[magic.lstrip("%")].options)


def read(magic: str, line: str) -> argparse.Namespace:
    """Parse the line of a magic.

    Raises:
        InputError: Something in it is unknown or not valid.
    """
    return parser(magic).read(line)


def explained(method: Callable[..., Any]) -> Callable[..., Any]:
    """Extend a magic's docstring by its options, for ``?``, and end it without our frames."""

    @functools.wraps(method)
    def magic(*args: Any) -> Any:
        try:
            return method(*args)
        except Interrupted:
            raise
        except KeyboardInterrupt:
            raise Interrupted(f"%{method.__name__} was interrupted.") from None

    magic.__doc__ = MAGICS[method.__name__].explained((method.__doc__ or "").strip())
    return magic
