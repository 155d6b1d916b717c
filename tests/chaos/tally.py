"""Count what faults have cost, and keep the counts of a long play in a file as it goes."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from statistics import median

DEADLINE = 120.0
"""Seconds within which the next step has to come."""


@dataclass
class Tally:
    """What happened through some faults.

    Args:
        runs: Trainings that were begun.
        lost: The messages of runs that ended by themselves.
        stuck: Faults after which no iteration came in time.
        planned: Iterations redone after a mere change of size.
        noticed: Iterations redone after a move off a node with an interruption notice.
        redone: Iterations redone after losses.
        left: Processes, folders in shared memory, and instances that were left at the end.
        seconds: From the last fault of a turn to the next iteration, by its faults.
    """

    faults: int = 0
    runs: int = 0
    lost: list[str] = field(default_factory=list)
    stuck: list[str] = field(default_factory=list)
    planned: int = 0
    noticed: int = 0
    redone: int = 0
    repeated: int = 0
    left_out: int = 0
    drawn_twice: int = 0
    left: list[str] = field(default_factory=list)
    seconds: dict[str, list[float]] = field(default_factory=dict)
    played: dict[str, int] = field(default_factory=dict)

    def add(self, other: Tally) -> None:
        """Add what happened through further faults."""
        for one in fields(self):
            mine, theirs = getattr(self, one.name), getattr(other, one.name)
            if one.name == "seconds":
                for name, values in theirs.items():
                    mine.setdefault(name, []).extend(values)
            elif one.name == "played":
                for name, count in theirs.items():
                    mine[name] = mine.get(name, 0) + count
            else:
                setattr(self, one.name, mine + theirs)

    def __str__(self) -> str:
        lines = [
            f"{self.faults} faults in {self.runs} trainings: {len(self.lost)} runs lost, "
            f"{len(self.stuck)} stuck, {self.noticed} steps lost with notice, "
            f"{self.planned} after a resize, {self.redone} after losses, "
            f"{self.repeated} examples repeated, {self.left_out} left out, "
            f"{self.drawn_twice} steps drawn twice, {len(self.left)} things left",
            *(f"lost: {one}" for one in self.lost),
            *(f"stuck: {one}" for one in self.stuck),
            *(f"left: {one}" for one in self.left),
            "played: " + ", ".join(f"{name} {n}" for name, n in sorted(self.played.items())),
        ]
        for name, values in sorted(self.seconds.items()):
            lines.append(
                f"  {name}: {len(values)} times, {median(values):.2f} s to the next step "
                f"(at most {max(values):.2f})"
            )
        return "\n".join(lines)

    @property
    def is_well(self) -> bool:
        """Whether nothing was lost but steps after unannounced losses."""
        wrong = (self.planned, self.noticed, self.repeated, self.left_out, self.drawn_twice)
        return not (self.lost or self.stuck or self.left or any(wrong))


class Record:
    """A file with a line for each chapter of a long play.

    Args:
        path: The file; made with the first chapter.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def write(self, chapter: int, tally: Tally) -> None:
        """Add a chapter that was played."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a", encoding="utf-8") as file:
            file.write("\n" + json.dumps({"chapter": chapter} | asdict(tally)))

    def chapters(self) -> dict[int, Tally]:
        """Return the chapters that were played so far; half a line at the end does not count."""
        found = {}
        for line in self._lines():
            try:
                values = json.loads(line)
            except ValueError:
                continue
            chapter = values.pop("chapter")
            found[chapter] = Tally(**values)
        return found

    def _lines(self) -> list[str]:
        return self.path.read_text(encoding="utf-8").splitlines() if self.path.exists() else []


def total(tallies: Iterable[Tally]) -> Tally:
    """Return all of them as one."""
    found = Tally()
    for tally in tallies:
        found.add(tally)
    return found


def table(found: Mapping[str, Tally]) -> str:
    """Return what happened on each stage, and in all, as a table in Markdown."""
    heads = ("stage", "faults", "trainings", "runs lost", f"no step in {DEADLINE:.0f} s")
    heads += ("left over", "steps lost with notice", "steps redone after losses")
    heads += ("examples repeated", "longest wait")
    rows = [heads, ("---",) * len(heads)]
    for name, one in {**found, "all": total(found.values())}.items():
        longest = max((max(values) for values in one.seconds.values()), default=0.0)
        counts = (one.faults, one.runs, len(one.lost), len(one.stuck), len(one.left))
        counts += (one.noticed, one.redone, one.repeated)
        rows.append((name, *map(str, counts), f"{longest:.1f} s"))
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)
