"""Sentences about ranks that wait for others, in pages, notebooks and terminals."""

from __future__ import annotations

from functools import reduce
from pathlib import PurePath

from workbench.core.run.hang import Elsewhere, WaitingRanks, decoded
from workbench.core.run.model import Run, RunKind, RunState
from workbench.core.units import rank_numbers
from workbench.pages.protocol import HangMessage
from workbench.view.html import Html, element, words
from workbench.view.phrase import Argument, Phrase, Said, counted, english, phrase

ADVICE = phrase(
    "If it does not continue by itself, stop the run: all ranks must make the same collective "
    "calls in the same order."
)
CELL = phrase("the cell")
# Amber that is readable on light and on dark pages.
_WARNING = "border-left: 4px solid #c77700; padding-left: 8px; color: #c77700"


def hang_sentence(run: Run) -> Phrase | None:
    """Return which ranks wait for which others, now or at the run's end; None without a wait."""
    hang = decoded(run.fact.hang)
    if hang is None:
        return None
    ended = run.fact.state.ended
    source: Said | None = source_of(run) or CELL
    parts = []
    for one in hang.waiting:
        parts.append(_waiting(one, hang.sure, ended, source))
        source = None  # named once
    parts += [_elsewhere(one, ended) for one in hang.others]
    joined = reduce(lambda before, one: phrase("%1; %2", before, one), parts)
    return phrase("%1.", joined)


def hang_advice(run: Run) -> Phrase | None:
    """Return what to do about a hang; None without a present one."""
    hang = decoded(run.fact.hang)
    asked = run.fact.state.ended or run.fact.state is RunState.STOPPING or run.wish.stop
    return ADVICE if hang and hang.sure and not asked else None


def hang_line(run: Run) -> str:
    """Return the sentence in English; empty without a wait."""
    sentence = hang_sentence(run)
    return _capital(english(sentence)) if sentence else ""


def hang_lines(run: Run) -> list[str]:
    """Return the lines about a hang for a terminal: the sentence, and what to do."""
    advice = hang_advice(run)
    return [line for line in (hang_line(run), english(advice) if advice else "") if line]


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
    sentence = hang_sentence(run)
    if sentence is None:
        return None
    return HangMessage(sure=is_hanging(run), sentence=sentence, advice=hang_advice(run))


def source_of(run: Run) -> str:
    """Return the name of a script; empty for a cell."""
    return PurePath(run.wish.path).name if run.wish.kind is RunKind.SCRIPT else ""


def _waiting(one: WaitingRanks, sure: bool, ended: bool, source: Said | None) -> Phrase:
    who, amount, time = _ranks(one.ranks), len(one.ranks), _time(one.seconds)
    if ended:
        text = phrase("%1 had waited in %2 for %3", who, one.call, time)
    elif sure:
        text = counted(
            "%2 has waited in %3 for %4", "%2 have waited in %3 for %4", amount, who, one.call, time
        )
    else:
        text = counted(
            "%2 waits in %3, %4 so far", "%2 wait in %3, %4 so far", amount, who, one.call, time
        )
    if not one.line:
        return text
    line = str(one.line)
    if source is None:
        return phrase("%1 (line %2)", text, line)
    return phrase("%1 (line %2 of %3)", text, line, source)


def _elsewhere(one: Elsewhere, ended: bool) -> Phrase:
    who, amount, place = _ranks(one.ranks), len(one.ranks), _place(one)
    if one.state == "ended":
        if ended:
            return phrase("%1 had ended", who)
        return counted("%2 has ended", "%2 have ended", amount, who)
    if one.state == "silent":
        time = _time(one.seconds)
        if ended:
            return phrase("%1 had not answered for %2, last %3", who, time, place)
        return counted(
            "%2 has not answered for %3, last %4",
            "%2 have not answered for %3, last %4",
            amount, who, time, place,
        )  # fmt: skip
    if ended:
        return counted("%2 was %3", "%2 were %3", amount, who, place)
    return counted("%2 is %3", "%2 are %3", amount, who, place)


def _place(one: Elsewhere) -> Phrase:
    if not one.line:
        return phrase("at %1", one.doing) if one.doing else phrase("at work")
    line = str(one.line)
    if not one.doing:
        return phrase("at line %1", line)
    return phrase("at line %1 (%2)", line, one.doing)


def _ranks(ranks: tuple[int, ...]) -> Phrase:
    return counted("rank %2", "ranks %2", len(ranks), rank_numbers(ranks))


def _time(seconds: float) -> Argument:
    """Return whole seconds: waits are not sampled more often."""
    return phrase("%1 s", f"{seconds:.0f}") if seconds < 60 else ("duration", seconds)


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
