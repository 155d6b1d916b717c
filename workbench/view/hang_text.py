"""Sentences about ranks that wait for others; the same as in ``extension/src/run/hang.ts``."""

from __future__ import annotations

from pathlib import PurePath

from workbench.core.run.hang import Elsewhere, Hang, WaitingRanks, decoded
from workbench.core.run.model import Run, RunKind, RunState
from workbench.core.units import rank_numbers, rank_ranges
from workbench.view.html import Html, element, words
from workbench.view.page_protocol import ElsewhereMessage, HangMessage, WaitingMessage
from workbench.view.text import duration

ADVICE = (
    "If it does not continue by itself, stop the run: all ranks must make the same collective "
    "calls "
    "in the same order."
)
CELL = "the cell"
# Amber that is readable on light and on dark pages.
_WARNING = "border-left: 4px solid #c77700; padding-left: 8px; color: #c77700"


def hang_line(run: Run) -> str:
    """Return which ranks wait for which others, now or at the run's end; empty without a wait."""
    hang = decoded(run.fact.hang)
    if hang is None:
        return ""
    ended, source = run.fact.state.ended, f" of {source_of(run) or CELL}"
    parts = []
    for one in hang.waiting:
        parts.append(_waiting(one, hang.sure, ended, source))
        source = ""  # named once
    parts += [_elsewhere(one, ended) for one in hang.others]
    return _capital("; ".join(parts)) + "."


def hang_advice(run: Run) -> str:
    """Return what to do about a hang; empty without a present one."""
    hang = decoded(run.fact.hang)
    asked = run.fact.state.ended or run.fact.state is RunState.STOPPING or run.wish.stop
    return ADVICE if hang and hang.sure and not asked else ""


def hang_lines(run: Run) -> list[str]:
    """Return the lines about a hang for a terminal: the sentence, and what to do."""
    return [line for line in (hang_line(run), hang_advice(run)) if line]


def hang_html(run: Run) -> Html:
    """Return the same for a page, as a warning unless ranks are only slow."""
    text = " ".join(hang_lines(run))
    if not text:
        return words("")
    return element("p", f"⚠ {text}", style=_WARNING) if is_hanging(run) else element("p", text)


def is_hanging(run: Run) -> bool:
    """Whether ranks wait for others that make no progress; otherwise those are only slow."""
    hang = decoded(run.fact.hang)
    return hang is not None and hang.sure


def hang_message(run: Run) -> HangMessage | None:
    """Return the wait as a message to a page."""
    hang = decoded(run.fact.hang)
    return _message(hang, source_of(run)) if hang else None


def source_of(run: Run) -> str:
    """Return the name of a script; empty for a cell."""
    return PurePath(run.wish.path).name if run.wish.kind is RunKind.SCRIPT else ""


def _message(hang: Hang, source: str) -> HangMessage:
    waiting = tuple(
        WaitingMessage(
            ranks=rank_numbers(one.ranks),
            amount=len(one.ranks),
            call=one.call,
            seconds=one.seconds,
            line=one.line,
        )
        for one in hang.waiting
    )
    others = tuple(
        ElsewhereMessage(
            ranks=rank_numbers(one.ranks),
            amount=len(one.ranks),
            state=one.state,
            line=one.line,
            doing=one.doing,
            seconds=one.seconds,
        )
        for one in hang.others
    )
    return HangMessage(sure=hang.sure, source=source, waiting=waiting, others=others)


def _waiting(one: WaitingRanks, sure: bool, ended: bool, source: str) -> str:
    who, many, for_ = rank_ranges(one.ranks), len(one.ranks) > 1, _time(one.seconds)
    place = f" (line {one.line}{source})" if one.line else ""
    if ended:
        return f"{who} had waited in {one.call} for {for_}{place}"
    if sure:
        return f"{who} {'have' if many else 'has'} waited in {one.call} for {for_}{place}"
    return f"{who} {'wait' if many else 'waits'} in {one.call}, {for_} so far{place}"


def _elsewhere(one: Elsewhere, ended: bool) -> str:
    who, many = rank_ranges(one.ranks), len(one.ranks) > 1
    has, is_ = ("have", "are") if many else ("has", "is")
    if ended:
        has, is_ = "had", "were" if many else "was"
    if one.state == "ended":
        return f"{who} {has} ended"
    place = _place(one)
    if one.state == "silent":
        return f"{who} {has} not answered for {_time(one.seconds)}, last {place}"
    return f"{who} {is_} {place}"


def _place(one: Elsewhere) -> str:
    if not one.line:
        return f"at {one.doing}" if one.doing else "at work"
    return f"at line {one.line}" + (f" ({one.doing})" if one.doing else "")


def _time(seconds: float) -> str:
    """Return whole seconds: waits are not sampled more often."""
    return f"{seconds:.0f} s" if seconds < 60 else duration(seconds)


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
