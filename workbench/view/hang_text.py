"""Sentences about ranks that wait for others, in pages, notebooks and terminals."""

from __future__ import annotations

from pathlib import PurePath

from workbench.core.run.hang import Elsewhere, WaitingRanks, decode_hang
from workbench.core.run.model import Run, RunKind, RunState
from workbench.core.units import duration, rank_ranges
from workbench.pages.protocol import HangMessage
from workbench.view.html import Html, element, words

ADVICE = (
    "If it does not continue by itself, stop the run: all ranks must make the same collective "
    "calls in the same order."
)
# Amber that is readable on light and on dark pages.
_WARNING = "border-left: 4px solid #c77700; padding-left: 8px; color: #c77700"


def hang_sentence(run: Run) -> str:
    """Return which ranks wait for which others, now or at the run's end; empty without a wait."""
    hang = decode_hang(run.fact.hang)
    if hang is None:
        return ""
    ended, source = run.fact.state.ended, source_of(run) or "the cell"
    parts = []
    for one in hang.waiting:
        parts.append(_describe_waiting(one, hang.sure, ended, source))
        source = ""  # named once
    parts += [_describe_elsewhere(one, ended) for one in hang.others]
    said = "; ".join(parts)
    return f"{said[:1].upper()}{said[1:]}."


def hang_advice(run: Run) -> str:
    """Return what to do about a hang; empty without a present one."""
    hang = decode_hang(run.fact.hang)
    asked = run.fact.state.ended or run.fact.state is RunState.STOPPING or run.wish.stop
    return ADVICE if hang and hang.sure and not asked else ""


def hang_lines(run: Run) -> list[str]:
    """Return the lines about a hang for a terminal: the sentence, and what to do."""
    return [line for line in (hang_sentence(run), hang_advice(run)) if line]


def hang_html(run: Run) -> Html:
    """Return the same for a page, as a warning unless ranks are only slow."""
    text = " ".join(hang_lines(run))
    if not text:
        return words("")
    return element("p", f"⚠ {text}", style=_WARNING) if is_hanging(run) else element("p", text)


def is_hanging(run: Run) -> bool:
    """Whether ranks wait for others that make no progress; otherwise those are only slow."""
    hang = decode_hang(run.fact.hang)
    return hang is not None and hang.sure


def hang_message(run: Run) -> HangMessage | None:
    """Return the wait as a message to a page."""
    sentence = hang_sentence(run)
    if not sentence:
        return None
    return HangMessage(sure=is_hanging(run), sentence=sentence, advice=hang_advice(run))


def source_of(run: Run) -> str:
    """Return the name of a script; empty for a cell."""
    return PurePath(run.wish.path).name if run.wish.kind is RunKind.SCRIPT else ""


def _describe_waiting(one: WaitingRanks, sure: bool, ended: bool, source: str) -> str:
    who, is_one, time = rank_ranges(one.ranks), len(one.ranks) == 1, _time(one.seconds)
    if ended:
        text = f"{who} had waited in {one.call} for {time}"
    elif sure:
        text = f"{who} {'has' if is_one else 'have'} waited in {one.call} for {time}"
    else:
        text = f"{who} {'waits' if is_one else 'wait'} in {one.call}, {time} so far"
    if not one.line:
        return text
    return f"{text} (line {one.line} of {source})" if source else f"{text} (line {one.line})"


def _describe_elsewhere(one: Elsewhere, ended: bool) -> str:
    who, is_one, place = rank_ranges(one.ranks), len(one.ranks) == 1, _place(one)
    has = "had" if ended else "has" if is_one else "have"
    if one.state == "ended":
        return f"{who} {has} ended"
    if one.state == "silent":
        return f"{who} {has} not answered for {_time(one.seconds)}, last {place}"
    if ended:
        return f"{who} {'was' if is_one else 'were'} {place}"
    return f"{who} {'is' if is_one else 'are'} {place}"


def _place(one: Elsewhere) -> str:
    if not one.line:
        return f"at {one.doing}" if one.doing else "at work"
    return f"at line {one.line} ({one.doing})" if one.doing else f"at line {one.line}"


def _time(seconds: float) -> str:
    """Return whole seconds: waits are not sampled more often."""
    return f"{seconds:.0f} s" if seconds < 60 else duration(seconds)
