"""Measure, and print what came out: ``python -m benchmarks [NAME]…``."""

from __future__ import annotations

import argparse
import math
import os
import signal
import sys
import time
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from types import FrameType
from typing import NoReturn

from rich.console import Console

from workbench.errors import WorkbenchError

from . import machine, report
from .figures import LEAST_ROUNDS, BenchmarkFailed, Row
from .place import Place

SEED = 0
# Those of minutes come last, so that a slow machine leaves out as few as possible.
NAMES = (
    "first_iteration",
    "torch_step",
    "output_bytes",
    "points",
    "large_store",
    "cold_start",
    "continuation",
    "continuation_ssh",
    "elastic_peers",
    "snapshot_state",
    "fleet",
    "nodes",
    "slurm_start",
    "import_cost",
    "executed_modules",
    "exchange_memory",
    "exchange_link",
    "exchange_sizes",
    "ddp_link",
    "plan",
    "staging",
    "codecs",
    "cold_call",
    "sweep_overhead",
    "elastic_overhead",
    "anatomy",
    "paired_iteration",
    "open_page",
    "live_view",
    "bare_nodes",
    "exchange_epoch",
    "goodput",
    "convergence",
)
# The first replays recordings that must be named, and the other trains eighteen times for fifteen
# epochs: neither measures times.
ONLY_BY_NAME = ("goodput", "convergence")
# Rounds of those that take minutes each.
FEWER_ROUNDS = {
    "paired_iteration": 1,
    "open_page": 1,
    "anatomy": 1,
    "output_bytes": 3,
    "points": 3,
    "large_store": 3,
    "exchange_link": 3,
    "codecs": 3,
    "staging": 3,
    "live_view": 1,
    "cold_start": 3,
    "executed_modules": 3,
    "continuation": 3,
    "continuation_ssh": 2,
    "elastic_overhead": 1,
    "snapshot_state": 3,
    "fleet": 3,
    "nodes": 1,
    "slurm_start": 3,
    "bare_nodes": 1,
    "exchange_sizes": 1,
}
# None begins later, so that all take about 45 minutes at most; those left out are named.
LAST_BEGIN_MINUTES = 40


def main(arguments: Sequence[str] | None = None) -> int:
    """Return the exit status: 1 when something could not be measured, 130 when interrupted.

    Raises:
        SystemExit: With 143 after SIGTERM, once everything that was started has ended.
    """
    options = _options(arguments)
    # Where it is set, each process would compile what it imports, which takes seconds of its start.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    said, console = Console(stderr=True), Console(width=None if sys.stdout.isatty() else 200)
    signal.signal(signal.SIGTERM, _end)
    results: dict[str, list[Row]] = {}
    try:
        named = machine.machine()
        said.print(f"Seed {SEED}.", highlight=False)
        if machine.is_busy():
            said.print("Other programs are busy here; what comes out is a rough guess.")
        failed = _measure(options, named, said, results)
    except KeyboardInterrupt:
        said.print("Interrupted; everything that was started has ended.")
        return 130
    except WorkbenchError as error:
        said.print(f"{error}", highlight=False)
        return 1
    report.show(console, named, results)
    if options.markdown:
        print(f"\n{report.markdown(named, results)}")
    return int(failed)


def _end(number: int, _: FrameType | None) -> NoReturn:
    """Leave by way of what ends everything that was started.

    ``timeout`` sends its signal twice, to the process and to its group: the second must not cut
    that short.
    """
    signal.signal(number, signal.SIG_IGN)
    raise SystemExit(128 + number)


def _measure(
    options: argparse.Namespace,
    named: dict[str, str],
    said: Console,
    results: dict[str, list[Row]],
) -> bool:
    failed = False
    asked = {"recordings": options.history, "boots": options.boot, "price": options.price}
    given = {"goodput": asked}
    began = time.monotonic()
    latest = math.inf if options.names else began + 60 * LAST_BEGIN_MINUTES
    for name in options.names or [one for one in NAMES if one not in ONLY_BY_NAME]:
        results[name] = []
        begun = time.monotonic()
        if begun > latest:
            said.print(f"{name}: left out for lack of time; it is measured by its name.")
            results[name].append(Row(name, "s", None, note="left out for lack of time"))
            failed = True
            continue

        def say(text: str, name: str = name) -> None:
            said.print(f"{name}: {text}", highlight=False, markup=False)

        try:
            with Place() as place:
                results[name] += import_module(f".{name}", __package__).measure(
                    place,
                    options.rounds or FEWER_ROUNDS.get(name, LEAST_ROUNDS),
                    say,
                    **given.get(name, {}),
                )
        except (BenchmarkFailed, WorkbenchError) as error:
            say(str(error))
            failed = True
        now = time.monotonic()
        if options.json:  # after each, so that an interruption loses one
            options.json.write_text(report.as_json(SEED, named, results), encoding="utf-8")
        say(f"took {now - begun:.0f} s, of {(now - began) / 60:.1f} minutes until now")
    return failed


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "names",
        nargs="*",
        metavar="NAME",
        help=", ".join(NAMES) + "; all but " + ", ".join(ONLY_BY_NAME) + " by default",
    )
    fewer = ", ".join(f"{rounds} of {name}" for name, rounds in FEWER_ROUNDS.items())
    parser.add_argument("--rounds", type=int, help=f"default: {LEAST_ROUNDS}, but {fewer}")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all values there")
    parser.add_argument(
        "--markdown", action="store_true", help="print the table of docs/benchmarks.md"
    )
    goodput = parser.add_argument_group("goodput")
    goodput.add_argument(
        "--history", type=Path, action="append", metavar="FILE", help="a recording of spot nodes"
    )
    goodput.add_argument(
        "--boot", type=float, action="append", metavar="SECONDS",
        help="until a new node is ready; default: 90, 240 and 480",
    )  # fmt: skip
    goodput.add_argument(
        "--price", type=float, default=0.0, metavar="$/H", help="of a node, on the recording's days"
    )
    options = parser.parse_args(arguments)
    unknown = [name for name in options.names if name not in NAMES]
    if unknown:
        parser.error(f"no benchmark is called {unknown[0]!r}; there are {', '.join(NAMES)}")
    if options.rounds is not None and options.rounds < 1:
        parser.error(f"--rounds must be at least 1, not {options.rounds}")
    return options


if __name__ == "__main__":
    sys.exit(main())
