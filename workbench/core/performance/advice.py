"""Decide whether more nodes pay, from the speed of a step and its statistical efficiency."""

from __future__ import annotations

from workbench.core.performance.batch_size import Advice
from workbench.core.performance.batch_size import sentence as batch_sentence
from workbench.core.performance.step_verdict import GIVES, Cause, Verdict, gain_text


def size_sentences(verdict: Verdict | None, batch: Advice | None) -> list[str]:
    """Return sentences on more nodes and on larger batches, which are one decision.

    Twice the nodes train on twice the examples per step. That pays if steps take hardly longer, and
    if each one makes more progress.
    """
    doubling = verdict.doubling if verdict else None
    if batch is None:
        if not (verdict and doubling and doubling.is_sure and verdict.cause is Cause.COMPUTE):
            return []
        return [f"With twice the nodes training would be {doubling.gain}."]
    text = batch_sentence(batch)
    if doubling is None:
        return [f"{text}."]
    share = batch.further / 2
    gives, low, high = (share * one for one in (doubling.speedup, doubling.low, doubling.high))
    if gives < GIVES:
        return [f"{text}; adding nodes does not pay."]
    if low <= 1:
        return [f"{text}."]
    return [f"{text}; with twice the nodes training would be {gain_text(gives, low, high)}."]
