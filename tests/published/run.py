"""Run published programs unmodified on two ranks, and print a table of what was seen.

    python tests/published/run.py FOLDER [--ranks N] [--cell] [--torchrun] [--keep] [WORD ...]

FOLDER has a checkout of each repository as OWNER+NAME; nothing is fetched. Words select programs
whose path has one of them. It needs torch, torchvision and Pillow. A cluster of its own is started,
in FOLDER/work, and deleted. With --cell each program is a cell of a notebook, below a line with its
arguments; with --torchrun torchrun runs it too, and has to print the same losses.
"""

from __future__ import annotations

import argparse
import itertools
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from catalogue import PROGRAMS, Program  # beside this script
from made_up import write_everything

from benchmarks.figures import BenchmarkFailed
from benchmarks.kernel import Kernel
from workbench.analysis.step_breakdown import read_breakdown
from workbench.core.run.model import Run, RunState
from workbench.store import Store

SECONDS = 600


def command(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Call workbench, and return what it printed."""
    called = [sys.executable, "-m", "workbench.cli", *arguments]
    return subprocess.run(
        called, capture_output=True, text=True, cwd=folder, timeout=SECONDS, check=False
    )


def from_cell(script: Path, arguments: list[str], options: list[str], folder: Path) -> str:
    """Run a program as a cell, with a line of its arguments and folder; return what it printed."""
    lines = script.read_text().splitlines()
    future = [n for n, line in enumerate(lines, 1) if line.startswith("from __future__")]
    first = max(future, default=0)
    words, beside = [str(script), *arguments], str(script.parent)
    given = f"import sys; sys.argv = {words}; sys.path.insert(0, {beside!r})"
    head = " ".join(["%%dist_train", *options])
    before = os.getcwd()
    os.chdir(folder)
    try:
        with Kernel() as kernel:
            kernel.run("%load_ext workbench")
            answer = kernel.run("\n".join([head, *lines[:first], given, *lines[first:]]))
    except BenchmarkFailed as error:
        return str(error)
    finally:
        os.chdir(before)
    return answer.text + answer.shown


def from_torchrun(script: Path, arguments: list[str], ranks: int, folder: Path) -> str:
    """Run a program by torchrun, and return what all its ranks printed."""
    runner = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    done = subprocess.run(
        [*runner, "--nproc-per-node", str(ranks), str(script), *arguments],
        capture_output=True,
        text=True,
        cwd=folder,
        timeout=SECONDS,
        check=False,
    )
    return (
        done.stdout if done.returncode == 0 else f"status {done.returncode}: {done.stderr[-500:]}"
    )


def losses_are_in(curve: list[float], printed: list[str]) -> bool:
    """Return whether the printed numbers are in a curve, in order and as exactly as printed."""
    left = iter(curve)
    for text in printed:
        digits = len(text.partition(".")[2].partition("e")[0])
        exact = 0.51 * 10.0**-digits * 10.0 ** int(text.partition("e")[2] or 0)
        if not any(abs(value - float(text)) <= exact for value in left):
            return False
    return True


def check_run(store: Store, run: Run, program: Program, ranks: int) -> list[str]:
    """Return what is wrong with a run that has ended."""
    wrong = []
    written = {}
    for rank, pieces in itertools.groupby(
        sorted(store.reports.output(run.id), key=lambda piece: piece.rank),
        key=lambda piece: piece.rank,
    ):
        written[rank] = "".join(piece.text for piece in pieces)
    points = store.reports.points(run.id)
    if program.printed:
        for rank, text in written.items():
            curve = [p.value for p in points if (p.name, p.rank) == (program.name, rank)]
            printed = re.findall(program.printed, text)
            if not losses_are_in(curve, printed):
                wrong.append(f"rank {rank} printed {printed[:4]}, its curve has {curve[:4]}")
        if not any(re.findall(program.printed, text) for text in written.values()):
            wrong.append("no loss was printed")
    if ranks == 2 and program.iterations and run.fact.iteration != program.iterations:
        wrong.append(f"{run.fact.iteration} iterations instead of {program.iterations}")
    if program.epochs and run.fact.epoch != program.epochs:
        wrong.append(f"{run.fact.epoch} epochs instead of {program.epochs}")
    return wrong


def try_program(program: Program, number: int, home: Path, asked: argparse.Namespace) -> bool:
    """Run a program, and print what was seen; return whether it was as expected."""
    ranks: int = asked.ranks
    work = home / "work"
    folder = work / f"run{number}"
    shutil.rmtree(folder, ignore_errors=True)  # what an earlier call left would be continued
    for name in ("results", "data"):
        (folder / name).mkdir(parents=True)
    with Store() as store:
        former = {one.id for one in store.runs()}
    script = home / program.path
    name = f"p{number}-{script.stem}"
    arguments = program.arguments.format(work=work).split()
    options = ["--ranks", str(ranks), "--name", name, *program.options.split()]
    options.append("--oversubscribe")
    if asked.cell:
        said = from_cell(script, arguments, options, folder)
    else:
        called = command("run", *options, str(script), *arguments, folder=folder)
        said = called.stdout + called.stderr
    with Store() as store:
        run = next((one for one in store.runs() if one.id not in former), None)
        if run is None:
            print(f"| {program.label} | not started: {said[-500:]}", flush=True)
            return False
        ended_well = run.fact.state is RunState.FINISHED
        wrong = [] if ended_well is not bool(program.exits) else [run.fact.error or "no error"]
        wrong += check_run(store, run, program, ranks) if not program.exits else []
        if asked.torchrun and program.printed and not program.exits:
            theirs = from_torchrun(script, arguments, ranks, folder)
            own = "\n".join(piece.text for piece in store.reports.output(run.id))
            mine, beside = (sorted(re.findall(program.printed, text)) for text in (own, theirs))
            if mine != beside:
                wrong.append(
                    f"torchrun printed {beside[:3]}, workbench {mine[:3]}; {theirs[-300:]}"
                )
        names = sorted({p.name for p in store.reports.points(run.id) if "/" not in p.name})
        anatomy = read_breakdown(store, run)
        parts = ", ".join(f"{1000 * s:.1f} {p}" for p, s in mean(anatomy.steps).items())
        print(
            f"| {program.label} | {run.fact.state.value} | {run.fact.iteration} |"
            f" {run.fact.epoch} | {', '.join(names)} | {parts} | {' '.join(anatomy.says)} |"
            f" {'; '.join(wrong) or 'as expected'} |",
            flush=True,
        )
        if wrong:
            print(said[-1500:])
        elif program.exits:
            print("   ", run.fact.error)
    return not wrong


def mean(steps: dict[int, dict[str, float]]) -> dict[str, float]:
    """Return the mean seconds of each part over the ranks."""
    names = list(next(iter(steps.values()), {}))
    return {name: sum(one.get(name, 0.0) for one in steps.values()) / len(steps) for name in names}


def main() -> int:
    """Run what was asked for; return the number of programs that did something else."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("folder", type=Path)
    asked.add_argument("--ranks", type=int, default=2)
    asked.add_argument("--cell", action="store_true", help="as cells of a notebook")
    asked.add_argument("--torchrun", action="store_true", help="also run by torchrun, to compare")
    asked.add_argument("--keep", action="store_true", help="leave the cluster up")
    asked.add_argument("words", nargs="*")
    options = asked.parse_args()
    home = options.folder.resolve()
    work = home / "work"
    write_everything(work)
    os.environ |= {
        "WORKBENCH_HOME": str(work / "home"),
        "CHAINER_DATASET_ROOT": str(work / "chainer"),
        "PYTHONPATH": str(Path(__file__).resolve().parent / "cpu"),
        "OMP_NUM_THREADS": "1",
    }
    failed = 0
    try:
        for number, program in enumerate(PROGRAMS):
            if not options.words or any(word in program.path for word in options.words):
                failed += not try_program(program, number, home, options)
    finally:
        if not options.keep:
            command("delete", folder=work)
    return failed


if __name__ == "__main__":
    sys.exit(main())
