"""A run leaves its ranks step by step, and keeps its promises whatever happens."""

from __future__ import annotations

import random
from dataclasses import replace

import msgspec
import pytest

from tests.batches import event_batch
from workbench.core.cluster.generation import Death, WorldFact, WorldState
from workbench.core.cluster.model import ResizeAt
from workbench.core.moment import Moment
from workbench.core.recovery.departure import INTERRUPT_SECONDS
from workbench.core.recovery.life import (
    AGAIN_SECONDS,
    FREE_SECONDS,
    IMPORT_SECONDS,
    LEAVING_SECONDS,
    LOST_VARIABLES,
    PULSE_PATIENCE,
    SETTLE_SECONDS,
    Answer,
    Beginning,
    EndAsked,
    Exiting,
    Failing,
    Heard,
    Life,
    LifeEvent,
    MeasureRedone,
    MessagesRefused,
    MoveAsked,
    Moving,
    NameCulprit,
    NodesNoticed,
    RankCallFailed,
    RanksGone,
    Recovering,
    RecoverRanks,
    RedoneMeasured,
    RemarkAdded,
    RunContinues,
    Running,
    RunOutcome,
    SendRanks,
    StayExplained,
    StopAsked,
    Stopping,
    StoredRun,
    SubmitAgain,
    TimePassed,
    WorldEnded,
    advance,
    begin_life,
)
from workbench.core.recovery.resumption import NONE, Attempt, failures
from workbench.core.recovery.snapshots import REDONE_SECONDS
from workbench.core.run.hang import STALLED_SECONDS
from workbench.core.run.model import Run, RunFact, RunKind, RunState, RunWish
from workbench.core.run.rank_protocol import (
    AskPulse,
    Batch,
    Command,
    Ending,
    EventReport,
    Interrupt,
    Progress,
    Pulse,
    SaveSoon,
    SnapshotSaved,
    StopAt,
    TrainingBegun,
    TrainingResumed,
)
from workbench.core.run.rank_standing import RankStanding
from workbench.core.run.run_options import RunOptions
from workbench.core.world.world import RankFact

RUN = "260101-000000-aaaa"
WORKING = RankStanding(begun=True)
STUCK = RankStanding(begun=True, call="Allreduce", waiting=9.0)
BOOM = Ending("failed", 3, "ValueError: boom", "Traceback …\nValueError: boom")
ECHO = Ending("failed", 3, "MPI_ERR_REVOKED", "Traceback …\nMPI_ERR_REVOKED", secondary=True)
BOOM_SHOWN = "Rank 1 on h1 failed: ValueError: boom."
DONE = Ending("finished", 9)
STOPPED = Ending("stopped", 9)
INTERRUPTED = Ending("stopped", 9, "interrupted", "KeyboardInterrupt")
GONE = Ending("failed", 3, "it left by itself with exit status 0", "Traceback …", gone=True)
KILLED = Death(0, "h0", "killed by signal 9 (SIGKILL)")
LOST = Death(0, "h0", "its node is gone", is_lost=True)


def left(ending: Ending) -> RankStanding:
    return RankStanding(begun=True, ending=ending)


def moment(steady: float) -> Moment:
    return Moment(1e9 + steady, steady)


def life_of(*ranks: RankStanding, script: bool = False, **changes: object) -> Life:
    """Return the life of a cell, or of a script, that runs on these ranks since 0 s."""
    kind = RunKind.SCRIPT if script else RunKind.CELL
    wish = RunWish(RUN, "digits", kind, "", path="/train.py" if script else "")
    fact = RunFact(RUN, RunState.SUBMITTED, 1, len(ranks))
    facts = tuple(RankFact(1, n, f"h{n}", 0, n) for n in range(len(ranks)))
    world = WorldFact(1, len(ranks), WorldState.READY, facts)
    life = begin_life(Run(wish, fact), world, StoredRun(), moment(0.0), fault_tolerant=True)
    shown = replace(life.fact, state=RunState.RUNNING, started=1e9)
    known = {"ranks": ranks, "state": Running(), "fact": shown, "may_wait": True}
    return replace(life, **{**known, **changes})


def passed(life: Life, steady: float, recovered: bool | None = None) -> Answer:
    return advance(life, TimePassed(moment(steady), recovered))


def sent(ranks: tuple[int, ...], command: Command) -> SendRanks:
    return SendRanks(ranks, command)


# -- it begins


def test_a_run_that_ranks_have_not_begun_is_submitted_again_each_time_later() -> None:
    life = replace(life_of(RankStanding(), WORKING), state=Beginning(0.0, AGAIN_SECONDS))
    times = []

    for tenth in range(400):
        life, actions = passed(life, tenth / 10)
        times += [tenth / 10] * (SubmitAgain() in actions)

    assert times == [5.0, 15.0, 35.0]


def test_it_runs_once_all_ranks_have_begun() -> None:
    life = replace(life_of(WORKING, RankStanding()), state=Beginning(0.0, AGAIN_SECONDS))

    life, _ = advance(life, Heard(Pulse(RUN, 1, 0), moment(0.1)))

    assert life.state == Running()
    assert life.is_calm


def test_a_run_that_no_rank_has_begun_waits_for_other_ranks() -> None:
    life = replace(life_of(RankStanding()), state=Beginning(0.0, AGAIN_SECONDS))
    ended = WorldEnded((), "gone", StoredRun(), moment(1.0), is_untouched=True)

    after, _ = advance(life, ended)
    stopped, _ = advance(advance(life, StopAsked(moment(0.5)))[0], ended)

    assert after.waits_again
    assert (after.fact.state, after.fact.ranks) == (RunState.QUEUED, 0)
    assert stopped.fact.state is RunState.STOPPED


def test_what_is_done_again_is_asked_once_the_snapshot_is_read() -> None:
    past = Attempt(1, 1, 2, 1e9, 1e9, RunState.LOST, "Lost.", iteration=9, is_automatic=True)
    life = life_of(WORKING, WORKING, past=(past,))
    batch = event_batch(RUN, TrainingResumed(4))

    life, actions = advance(life, Heard(batch, moment(1.0)))
    life, _ = advance(life, RedoneMeasured({1: 2.0}))

    assert actions == (MeasureRedone(),)
    assert life.notice == "Lost. Lost at least 5 steps (2.0 s). Continued from iteration 4."


def test_a_run_begins_with_its_first_batch_and_never_goes_back() -> None:
    life = replace(life_of(RankStanding(), RankStanding()), fact=RunFact(RUN, RunState.SUBMITTED))
    facts = []

    for rank, progress in ((1, None), (1, Progress(7, 9)), (0, Progress(6, 9))):
        life, _ = advance(life, Heard(Batch(RUN, rank, 1, progress=progress), moment(5.0)))
        facts.append(life.fact)

    assert (facts[0].state, facts[0].started) == (RunState.RUNNING, moment(5.0).wall)
    assert (facts[1].iteration, facts[1].iterations_total) == (7, 9)
    assert facts[2] == facts[1]


def test_rank_0_reports_snapshots_and_from_which_one_the_run_continues() -> None:
    resumed, _ = advance(life_of(WORKING), Heard(event_batch(RUN, TrainingResumed(4)), moment(1.0)))
    saved, _ = advance(resumed, Heard(event_batch(RUN, SnapshotSaved(9)), moment(2.0)))

    assert (resumed.fact.resumed_at, resumed.fact.iteration, resumed.snapshot) == (4, 4, NONE)
    assert saved.snapshot == 9


# -- nodes have notices


def noticed(life: Life, steady: float, *nodes: str) -> tuple[Life, bool]:
    """Return the life after its nodes' notices, and whether it was asked to save."""
    life, actions = advance(life, NodesNoticed(moment(steady), frozenset(nodes)))
    assert actions in ((), (sent((0,), SaveSoon(life.run.execution)),))
    return life, bool(actions)


def test_a_run_saves_once_for_notices_that_come_together_and_trains_on() -> None:
    life, asked = life_of(WORKING, WORKING), []

    for steady, nodes in [(50.0, "a"), (50.5, "a"), (53.0, "ab"), (70.0, "ab"), (90.0, "abc")]:
        life, is_asked = noticed(life, steady, *nodes)
        asked += [steady] * is_asked

    assert asked == [50.0, 90.0]
    assert life.state == Running()


def test_a_run_that_has_just_saved_does_not_save_for_a_notice() -> None:
    life, _ = advance(life_of(WORKING), Heard(event_batch(RUN, SnapshotSaved(9)), moment(50.0)))

    life, is_asked = noticed(life, 50.0 + REDONE_SECONDS - 0.1, "a")
    old, was_asked = noticed(life, 50.0 + REDONE_SECONDS, "a", "b")

    assert (is_asked, was_asked) == (False, True)
    assert not noticed(old, 70.0, "a")[1]
    assert noticed(noticed(old, 70.0)[0], 80.0, "a")[1], "a notice came back after it was withdrawn"


def test_a_run_that_cannot_save_or_does_not_train_is_not_asked_to() -> None:
    options = RunOptions(restart=True)
    script = life_of(WORKING, script=True)
    restarts = replace(script.run, wish=replace(script.run.wish, options=options))
    again = replace(script.run, fact=replace(script.run.fact, attempt=2))
    reading, read = replace(script, run=again), event_batch(RUN, TrainingResumed(4))

    for life in (
        replace(script, run=restarts),
        replace(script, state=Beginning(0.0, AGAIN_SECONDS)),
        asked(script),
        reading,
    ):
        assert not noticed(life, 50.0, "a")[1], life
    life, _ = advance(reading, Heard(read, moment(40.0)))
    assert noticed(life, 50.0, "a")[1]


# -- a rank fails


def test_nothing_is_done_while_all_goes_well() -> None:
    life = life_of(WORKING, STUCK)

    after, actions = passed(life, 1.0)

    assert (after.state, actions) == (Running(), ())


def test_a_rank_that_raises_is_reported_at_once() -> None:
    life, actions = passed(life_of(WORKING, left(BOOM)), 1.0)

    assert (life.state, actions) == (Failing(1.0), ())
    assert (life.fact.failed_rank, life.fact.message) == (1, BOOM_SHOWN)


@pytest.mark.parametrize(
    ("after", "actions"),
    [(SETTLE_SECONDS / 2, ()), (SETTLE_SECONDS + 0.01, (sent((0, 2), Interrupt(RUN)),))],
)
def test_the_others_may_end_by_themselves_for_a_moment(after, actions) -> None:
    life = life_of(WORKING, left(BOOM), STUCK, state=Failing(100.0))

    assert passed(life, 100.0 + after)[1] == actions


@pytest.mark.parametrize("after", [FREE_SECONDS / 2, FREE_SECONDS + 0.01])
def test_a_rank_that_cannot_be_freed_costs_the_world(after) -> None:
    life = life_of(WORKING, left(BOOM), state=Failing(99.0, 100.0))
    life = replace(life, fact=replace(life.fact, state=RunState.FAILED, message="Failed."))

    over = passed(life, 100.0 + after)[0].over

    assert (over is not None) == (after > FREE_SECONDS)
    assert not over or over.gave_up == "rank 0 did not leave the failed cell"


BEHIND = "Traceback …, another line\nValueError: boom"


@pytest.mark.parametrize(
    ("ranks", "capable", "state"),
    [
        ((left(BOOM), left(BOOM)), True, ""),
        ((left(BOOM), left(BOOM)), False, ""),
        ((left(ECHO), left(ECHO)), True, Recovering),
        ((left(DONE), left(BOOM)), True, Recovering),
        ((left(BOOM), left(msgspec.structs.replace(BOOM, traceback=BEHIND))), True, Recovering),
        ((left(DONE), left(BOOM)), False, "this MPI cannot recover from a rank that left alone"),
        ((left(GONE), left(GONE)), True, "ranks 0, 1 left for good"),
        ((left(DONE), left(GONE)), True, "rank 1 left for good"),
    ],
)
def test_a_world_takes_the_next_run_recovers_or_ends_as_its_ranks_left(ranks, capable, state):
    life = life_of(*ranks, fault_tolerant=capable)

    life, _ = passed(life, 100.0)
    life, actions = passed(life, 100.1)

    if isinstance(state, str):
        assert life.over.gave_up == state
    else:
        assert (type(life.state), actions) == (state, (RecoverRanks(),))


@pytest.mark.parametrize(
    ("recovered", "gave_up"), [(None, None), (True, ""), (False, "it could not be recovered")]
)
def test_a_world_is_released_or_given_up_as_its_recovery_went(recovered, gave_up) -> None:
    life = life_of(left(ECHO), left(BOOM), state=Recovering(Failing(99.0), 100.0))
    life = replace(life, fact=replace(life.fact, state=RunState.FAILED, message="Failed."))

    over = passed(life, 101.0, recovered)[0].over

    assert (over and over.gave_up) == gave_up


def test_an_engine_that_can_end_no_run_costs_the_world_unless_its_rank_still_reports() -> None:
    life, _ = advance(life_of(WORKING, WORKING), RankCallFailed(1, "ImportError: x", moment(1.0)))

    reported = replace(life, ranks=(WORKING, left(DONE)))

    assert passed(reported, 3.0)[0].over is None
    assert passed(life, 1.5)[0].over is None
    assert passed(life, 3.0)[0].over.gave_up == "rank 1 can run no other cell"


def test_an_earlier_run_whose_code_ended_a_rank_is_named() -> None:
    trace = 'File "<cell of run 250101-000000-bbbb>", line 1'
    death = replace(KILLED, trace=trace)
    life = life_of(WORKING, WORKING)

    life, actions = advance(life, WorldEnded((death,), "", StoredRun(), moment(1.0)))

    assert actions == (NameCulprit("250101-000000-bbbb"),)


@pytest.mark.parametrize(
    ("kind", "ending", "snapshot", "retries", "remark"),
    [
        (RunKind.SCRIPT, BOOM, 2, 3, None),
        (RunKind.SCRIPT, BOOM, 2, 0, "It does not continue by itself: no retries were asked for."),
        (RunKind.SCRIPT, BOOM, NONE, 3, ""),
        (RunKind.SCRIPT, msgspec.structs.replace(BOOM, exited=True), 2, 3, ""),
        (RunKind.CELL, BOOM, 2, 3, ""),
    ],
    ids=["tried again", "no retries", "no snapshot", "exits", "a cell"],
)
def test_a_script_that_raises_is_tried_again_if_it_may_end_otherwise(
    kind, ending, snapshot, retries, remark
) -> None:
    life = life_of(WORKING, left(ending), snapshot=snapshot)
    options = replace(life.run.wish.options, retries=retries)
    wish = replace(life.run.wish, kind=kind, options=options)

    life = passed(replace(life, run=replace(life.run, wish=wish)), 1.0)[0]

    assert (life.retry is not None) == (remark is None)
    assert remark is None or life.fact.message.startswith(f"{BOOM_SHOWN} {remark}".strip())


# -- ranks wait for each other


def stalled_life(*others: RankStanding, **changes: object) -> Life:
    waits = RankStanding(True, 6, call="barrier", waiting=STALLED_SECONDS + 1, heard=100.0, line=2)
    return life_of(waits, *(others or (waits,)), **{"snapshot": 4, **changes})


def test_ranks_that_wait_for_each_other_for_good_are_replaced_and_counted() -> None:
    over = passed(stalled_life(), 100.0)[0].over

    assert over.outcome.message.startswith("Ranks 0, 1 waited in barrier for 61 s, and nothing")
    assert over.outcome.message.endswith("Retry 1 of 3.")
    assert (over.gave_up, over.silent) == ("its ranks waited for each other", ())


def test_a_node_that_does_not_answer_is_left_without_a_retry() -> None:
    silent = RankStanding(True, 6, heard=100.0 - STALLED_SECONDS)

    over = passed(stalled_life(silent, replaces=True), 100.0)[0].over

    assert (over.silent, over.outcome.failed_at) == ((1,), NONE)


def test_ranks_that_wait_for_each_other_before_anything_is_saved_are_only_shown() -> None:
    life = passed(stalled_life(snapshot=NONE), 100.0)[0]

    assert (life.over, life.fact.state) == (None, RunState.RUNNING)
    assert "barrier" in life.fact.hang


@pytest.mark.parametrize("snapshot", [NONE, 4])
def test_ranks_that_wait_for_one_that_has_ended_end_the_run(snapshot) -> None:
    life = passed(stalled_life(left(DONE), snapshot=snapshot), 100.0)[0]

    assert isinstance(life.state, Failing)
    assert life.fact.message == (
        "Rank 0 has waited in barrier for 61 s (line 2 of the cell); rank 1 has ended, so it will "
        "never come."
    )


def test_an_import_that_takes_long_is_shown_until_something_else_is_seen() -> None:
    life = life_of(replace(WORKING, doing="import torch"))

    life = passed(passed(life, 1.0)[0], 1.0 + IMPORT_SECONDS)[0]

    assert life.fact.message == "The ranks import torch."
    assert passed(life.with_fact(iteration=1), 9.0)[0].fact.message == ""


# -- it is asked to leave


def asked(life: Life, **changes: object) -> Life:
    return replace(life, state=Stopping(since=100.0, grace=5.0, **changes))


def test_a_run_that_no_rank_has_begun_is_cancelled() -> None:
    life = asked(life_of(RankStanding(), RankStanding()))

    life, actions = passed(life, 100.0)

    assert actions == (sent((0, 1), Interrupt(RUN)),)
    assert (life.over.gave_up, life.fact.message) == ("", "Stopped before it began.")


def test_a_run_that_an_earlier_supervisor_has_begun_is_not_cancelled() -> None:
    life = asked(life_of(RankStanding(), RankStanding()))
    begun = replace(life.run, fact=replace(life.run.fact, state=RunState.RUNNING))

    assert passed(replace(life, run=begun), 100.0)[1] == (sent((0, 1), AskPulse(RUN)),)


def test_ranks_are_asked_where_they_are_and_leave_at_a_boundary_ahead() -> None:
    life, actions = passed(asked(life_of(RankStanding(), WORKING)), 100.0)
    assert actions == (sent((0, 1), AskPulse(RUN)),)

    heard = RankStanding(begun=True, boundary=4, heard=100.1)
    life, actions = passed(replace(life, ranks=(left(DONE), heard)), 100.1)

    assert actions == (sent((1,), StopAt(RUN, 6)),)
    assert passed(life, 100.2)[1] == ()


@pytest.mark.parametrize("after", [PULSE_PATIENCE - 0.1, PULSE_PATIENCE])
def test_a_pulse_that_does_not_come_is_not_waited_for_long(after) -> None:
    stale = RankStanding(begun=True, boundary=10, heard=98.0)
    life = asked(life_of(stale, replace(WORKING, heard=100.1)), asked=100.0)

    actions = passed(life, 100.0 + after)[1]

    assert actions == ((sent((0, 1), StopAt(RUN, 12)),) if after == PULSE_PATIENCE else ())


@pytest.mark.parametrize(("after", "is_due"), [(4.9, False), (5.0, True)])
def test_ranks_that_reach_no_boundary_are_interrupted_after_the_grace(after, is_due) -> None:
    life = asked(life_of(WORKING, STUCK), asked=100.0, sent=100.5)

    assert passed(life, 100.0 + after)[1] == ((sent((0, 1), Interrupt(RUN)),) if is_due else ())


@pytest.mark.parametrize("after", [INTERRUPT_SECONDS - 0.1, INTERRUPT_SECONDS])
def test_ranks_that_ignore_an_interrupt_cost_the_world(after) -> None:
    life = asked(life_of(WORKING, WORKING, left(INTERRUPTED)), interrupted=106.0)

    life = passed(life, 106.0 + after)[0]

    if after < INTERRUPT_SECONDS:
        assert life.over is None
    else:
        assert life.over.gave_up == "ranks 0, 1 did not stop when interrupted"
        assert life.fact.message == f"Stopped at iteration 9. {LOST_VARIABLES}"


def test_ranks_that_stopped_at_a_boundary_are_released() -> None:
    life = passed(asked(life_of(left(STOPPED), left(STOPPED)), sent=100.1), 100.5)[0]

    assert (life.over.gave_up, life.fact.message) == ("", "Stopped at iteration 9.")


@pytest.mark.parametrize("ending", [INTERRUPTED, ECHO], ids=["stopped", "freed"])
def test_ranks_that_were_interrupted_recover(ending) -> None:
    life = asked(life_of(left(INTERRUPTED), left(ending)), interrupted=100.0)

    assert passed(life, 100.5)[1] == (RecoverRanks(),)


def test_a_rank_that_fails_while_it_stops_is_reported() -> None:
    life = passed(asked(life_of(WORKING, left(BOOM))), 100.0)[0]

    assert (life.fact.state, life.fact.failed_rank) == (RunState.FAILED, 1)


# -- it moves


def moving(**changes: object) -> Life:
    life = life_of(WORKING, WORKING, snapshot=4)
    return advance(life, MoveAsked(moment(100.0), **changes))[0]


def test_a_run_moves_only_if_it_can_continue() -> None:
    assert moving().is_moving
    assert not advance(life_of(WORKING), MoveAsked(moment(1.0)))[0].is_moving


def test_a_move_to_the_end_of_an_epoch_may_come_sooner_but_not_later() -> None:
    later = moving(at=ResizeAt.EPOCH)
    sooner = advance(later, MoveAsked(moment(101.0)))[0]

    assert later.state.at_epoch
    assert not sooner.state.at_epoch
    assert advance(sooner, MoveAsked(moment(102.0), at=ResizeAt.EPOCH))[0] == sooner


def test_a_stop_wins_over_a_move_whose_ranks_know_where_to_leave() -> None:
    life = moving(because="its cluster has no nodes now")
    life = replace(life, state=replace(life.state, asked=100.1, sent=100.2))

    life = advance(life, StopAsked(moment(101.0)))[0]
    life = passed(replace(life, ranks=(left(STOPPED), left(STOPPED))), 102.0)[0]

    assert life.over.outcome is RunOutcome.ENDED
    assert life.fact.message == "Stopped at iteration 9."


def test_a_run_that_left_its_ranks_continues_without_a_retry() -> None:
    life = replace(moving(nodes="i-1"), ranks=(left(STOPPED), left(STOPPED)))

    follows = passed(life, 101.0)[0].over.outcome

    assert (follows.past.state, follows.failed_at) == (RunState.STOPPED, NONE)
    assert follows.left_nodes == "i-1"
    assert follows.message == (
        "It left i-1, because the provider takes it back; it continues from its newest snapshot."
    )


def test_a_run_that_comes_to_its_end_before_it_has_left_is_finished() -> None:
    life = passed(replace(moving(), ranks=(left(DONE), left(DONE))), 101.0)[0]

    assert (life.fact.state, life.fact.message) == (RunState.FINISHED, "")


def test_ranks_that_an_earlier_supervisor_has_asked_to_leave_continue_elsewhere() -> None:
    life = life_of(left(STOPPED), left(STOPPED), snapshot=9)

    assert isinstance(passed(life, 1.0)[0].over.outcome, RunContinues)


def test_a_script_that_answers_the_interrupt_with_an_error_starts_again_all_the_same() -> None:
    life = life_of(WORKING, script=True)
    wish = replace(life.run.wish, options=RunOptions(restart=True))
    life = replace(life, run=replace(life.run, wish=wish))

    life = advance(life, MoveAsked(moment(100.0)))[0]
    life, actions = passed(life, 105.0)
    life = passed(replace(life, ranks=(left(BOOM),)), 105.1)[0]

    assert actions == (sent((0,), Interrupt(RUN)),)
    assert life.over.outcome.past.state is RunState.STOPPED


# -- it loses its world


def lost(
    life: Life, *deaths: Death, snapshot: int = 4, has_begun: bool = False, **changes: object
) -> Life:
    record = StoredRun(snapshot=snapshot, has_begun=has_begun)
    return advance(life, WorldEnded(deaths, "", record, moment(200.0), **changes))[0]


@pytest.mark.parametrize(("death", "is_counted"), [(KILLED, True), (LOST, False)])
def test_a_lost_node_is_no_retry_and_a_killed_rank_is_one(death, is_counted) -> None:
    follows = lost(life_of(WORKING), death).over.outcome

    assert (follows.failed_at != NONE) is is_counted
    assert ("Retry 1 of 3." in follows.message) is is_counted


def test_nothing_is_said_to_be_kept_that_is_not() -> None:
    without = lost(life_of(WORKING), LOST, snapshot=NONE)

    assert without.fact.state is RunState.FAILED
    assert "no snapshot of it was saved" in without.fact.message


AT_ONCE = Attempt(
    1, 1, 2, 0.0, 9.0, RunState.LOST, "It was lost.", is_automatic=True, failed_at=0,
)  # fmt: skip
"""It failed before its first iteration."""
CUT_OFF = replace(AT_ONCE, failed_at=NONE)
"""It lost its node there."""


@pytest.mark.parametrize("death", [KILLED, None], ids=["killed", "ended"])
@pytest.mark.parametrize("script", [True, False])
def test_a_training_that_is_killed_in_its_first_step_begins_again_once(death, script) -> None:
    deaths = (death,) * (death is not None)
    life = life_of(WORKING, WORKING, script=script)

    first = lost(life, *deaths, snapshot=NONE, has_begun=True)
    second = lost(replace(life, past=(AT_ONCE,)), *deaths, snapshot=NONE, has_begun=True)

    follows = first.over.outcome
    assert follows.failed_at == 0
    assert "it begins again at iteration 0" in follows.message
    assert follows.message.endswith("Retry 1 of 3.")
    assert (second.over.outcome, second.fact.attempt) == (RunOutcome.ENDED, 1)
    assert second.fact.message.count("It does not begin again by itself: it failed twice") == 1
    assert "twice before its first iteration. Run the " in second.fact.message


def test_what_is_killed_before_a_training_has_begun_ends() -> None:
    life = lost(life_of(WORKING), KILLED, snapshot=NONE)

    assert (life.over.outcome, life.fact.state) == (RunOutcome.ENDED, RunState.FAILED)
    assert "by itself" not in life.fact.message


def test_losses_of_nodes_before_the_first_iteration_are_no_failures() -> None:
    life = replace(life_of(WORKING), past=(AT_ONCE, CUT_OFF, CUT_OFF))

    follows = lost(life, LOST, snapshot=NONE, has_begun=True).over.outcome

    assert follows.failed_at == NONE


def test_a_script_with_its_own_checkpoints_is_tried_again_although_it_reports_nothing() -> None:
    life = life_of(WORKING, script=True)
    wish = replace(life.run.wish, options=RunOptions(restart=True))
    life = replace(life, run=replace(life.run, wish=wish), past=(AT_ONCE,))

    assert lost(life, KILLED, snapshot=NONE).over.outcome.message.endswith("Retry 2 of 3.")


def test_a_script_that_raises_in_its_first_step_is_not_tried_again() -> None:
    boom = msgspec.structs.replace(BOOM, iteration=0)
    life = passed(life_of(left(boom), WORKING, script=True), 100.0)[0]

    assert (life.fact.state, life.retry) == (RunState.FAILED, None)
    assert lost(life, KILLED, snapshot=NONE, has_begun=True).over.outcome is RunOutcome.ENDED


@pytest.mark.parametrize(
    "life",
    [asked(life_of(WORKING)), life_of(left(BOOM))],
    ids=["stopping", "raised"],
)
def test_a_run_that_stops_or_has_raised_does_not_continue(life) -> None:
    assert lost(life, KILLED).over.outcome is RunOutcome.ENDED


def test_a_world_that_the_supervisor_ended_is_not_continued() -> None:
    life = lost(life_of(WORKING), is_asked=True)

    assert life.fact.state is RunState.LOST
    assert life.fact.message.startswith("The world of this run ended")


# -- a script


def test_the_ranks_of_a_script_end_by_themselves_and_are_given_up_if_they_do_not() -> None:
    life = passed(life_of(left(DONE), left(DONE), script=True), 100.0)[0]
    assert life.state == Exiting(100.0)
    assert life.is_exiting

    late = passed(life, 100.0 + LEAVING_SECONDS)[0]

    assert late.over.gave_up == "its ranks did not end by themselves"
    assert late.fact.state is lost(life, KILLED, is_asked=True).fact.state is RunState.FINISHED


def test_a_process_that_ends_in_order_leaves_the_others_in_the_run() -> None:
    life = life_of(WORKING, WORKING, script=True)
    life = advance(life, RanksGone((replace(KILLED, is_plain=True),), StoredRun({0: DONE})))[0]

    assert life.is_exiting
    assert passed(replace(life, ranks=(left(DONE), left(BOOM))), 1.0)[0].fact.failed_rank == 1


def test_a_script_that_is_interrupted_or_fails_ends_with_its_world() -> None:
    life = asked(life_of(left(INTERRUPTED), script=True), interrupted=100.0)

    assert passed(life, 100.5)[0].over.gave_up == "its script has ended"


def test_a_script_that_raises_is_tried_again_once_its_ranks_have_left() -> None:
    life = passed(life_of(left(BOOM), WORKING, script=True, snapshot=2), 100.0)[0]
    assert (life.is_reported, life.retry.failed_at) == (False, 3)

    life = passed(replace(life, ranks=(left(BOOM), left(ECHO))), 100.1)[0]

    assert life.over.outcome.failed_at == 3
    assert life.over.outcome.message.endswith("Retry 1 of 3.")


def test_a_run_whose_messages_are_refused_ends_once_although_it_was_to_be_tried_again() -> None:
    life = passed(life_of(left(BOOM), left(BOOM), script=True, snapshot=2), 100.0)[0]

    life = advance(life, MessagesRefused("It sent nonsense.", life.run.fact, moment(100.1)))[0]
    life = passed(life, 100.2)[0]

    assert life.over.outcome is RunOutcome.ENDED
    assert (life.fact.state, life.fact.message) == (RunState.FAILED, "It sent nonsense.")


# -- whatever happens


class History:
    """Seeded attempts of runs, to which anything happens in any order."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.now = 0.0
        self.runs = 0
        self.ends = dict.fromkeys([*RunState, RunContinues, RunOutcome.WAITS], 0)
        self.start_run()

    def start_run(self) -> None:
        chance = self.chance
        script, self.runs = chance.random() < 0.5, self.runs + 1
        restarts = script and chance.random() < 0.3
        options = RunOptions(
            grace=chance.choice([0.0, 5.0]), retries=chance.choice([0, 1, 3]), restart=restarts
        )
        kind = chance.choice(
            [RunKind.SCRIPT] if script else [RunKind.CELL, RunKind.CELL, RunKind.SETUP]
        )
        self.wish = RunWish(
            RUN, "digits", kind, "", path="/train.py" if script else "",
            options=options,
        )  # fmt: skip
        self.past: tuple[Attempt, ...] = ()
        self.snapshot, self.has_begun, self.is_stopped = NONE, False, False
        self.start_attempt()

    def start_attempt(self) -> None:
        ranks = self.chance.randint(1, 4)
        state = self.chance.choice([RunState.SUBMITTED] * 4 + [RunState.RUNNING])
        fact = RunFact(RUN, state, 1, ranks, attempt=len(self.past) + 1)
        facts = tuple(RankFact(1, n, f"h{n}", 0, n) for n in range(ranks))
        world, stored = WorldFact(1, ranks, WorldState.READY, facts), StoredRun({}, self.snapshot)
        is_capable = self.chance.random() < 0.7
        self.life = replace(
            begin_life(
                Run(self.wish, fact), world, stored, moment(self.now), fault_tolerant=is_capable
            ),
            past=self.past,
            replaces=self.chance.random() < 0.5,
            may_wait=self.chance.random() < 0.5,
        )
        self.is_stopped = False

    def happen(self) -> None:
        """Let one more event happen, and check all that is promised."""
        self.now += self.chance.choice([0.0, 0.05, 0.1, 0.5, 1.0, 12.0])
        before, event = self.life, self.event()
        after, actions = advance(before, event)
        assert (after, actions) == advance(before, event), "the same question, another answer"
        self.check(before, event, after, actions)
        self.life = after
        if isinstance(event, StopAsked | EndAsked):
            self.is_stopped |= isinstance(after.leaving, Stopping) and after.retry is None
        if after.over is not None:
            self.end(after)

    def event(self) -> LifeEvent:
        chance, now = self.chance, moment(self.now)
        rank = chance.randrange(len(self.life.ranks) + 1)
        deed = chance.random()
        if deed < 0.45:
            return TimePassed(now, chance.choice([None, True, False]))
        if deed < 0.65:
            pulse = Pulse(RUN, rank, chance.randint(0, 50), chance.choice([0.0, 5.0]))
            call = chance.choice(["", "", "", "Allreduce"])
            seconds, idle = chance.choice([0.0, 1.0, 90.0]), chance.random() < 0.2
            pulse = msgspec.structs.replace(pulse, call=call, seconds=seconds, idle=idle)
            return Heard(pulse, now)
        if deed < 0.88:
            return Heard(self.batch(rank), now)
        seldom = self.seldom(now, rank)
        return chance.choice(seldom)

    def seldom(self, now: Moment, rank: int) -> list[LifeEvent]:
        chance, life = self.chance, self.life
        there = rank % len(life.ranks)
        death = Death(
            there, f"h{there}", "killed by signal 9 (SIGKILL)", is_lost=chance.random() < 0.4,
            is_abort=chance.random() < 0.1, is_plain=chance.random() < 0.3,
        )  # fmt: skip
        known = {there: self.ending()} if chance.random() < 0.3 else {}
        if self.has_begun and chance.random() < 0.3:  # it was in a log, and is on record now
            self.snapshot = self.life.fact.iteration
        record = StoredRun(known, self.snapshot, self.has_begun)
        deaths = (death,) if chance.random() < 0.8 else ()
        return [
            StopAsked(now, chance.choice(["", "It reached its wall-clock limit of 1 h."])),
            EndAsked(now, "the cluster's time to live is over", 30.0, 1.0),
            MoveAsked(now, chance.choice(["", "i-1"]), chance.choice([*ResizeAt])),
            NodesNoticed(now, frozenset(chance.sample(["i-1", "i-2"], chance.randint(0, 2)))),
            StayExplained("It has a file open.", "It keeps its ranks."),
            RankCallFailed(rank, "ImportError: x", now),
            RanksGone((death,), record),
            WorldEnded(
                deaths, "its ranks ended", record, now, is_asked=chance.random() < 0.2,
                is_untouched=chance.random() < 0.5, is_lost=chance.random() < 0.2,
            ),
            MessagesRefused("It sent nonsense.", life.run.fact, now),
            RemarkAdded("A remark."),
        ]  # fmt: skip

    def ending(self) -> Ending:
        one = self.chance.choice(
            [BOOM, ECHO, DONE, DONE, DONE, STOPPED, STOPPED, INTERRUPTED, GONE]
        )
        return msgspec.structs.replace(one, iteration=self.life.fact.iteration)

    def batch(self, rank: int) -> Batch:
        chance = self.chance
        iteration = self.life.fact.iteration + chance.randint(0, 3)
        events: tuple[EventReport, ...] = ()
        if rank == 0 and self.wish.kind is not RunKind.SETUP and chance.random() < 0.3:
            event = chance.choice([TrainingBegun(), SnapshotSaved(iteration)])
            events, self.has_begun = (EventReport(event, 1.0),), True
            self.snapshot = iteration if isinstance(event, SnapshotSaved) else self.snapshot
        leaves = chance.random() < 0.3
        progress = Progress(iteration, 100, iteration / 10, 10)
        ending = self.ending() if leaves else None
        return Batch(RUN, rank, 1, progress=progress, ending=ending, events=events)

    def check(
        self, before: Life, event: LifeEvent, after: Life, actions: tuple[object, ...]
    ) -> None:
        if before.is_reported:
            assert after.fact.state is before.fact.state, "it ended twice"
            assert after.fact.message.startswith(before.fact.message), "its end was reported twice"
            assert not (after.over and after.continues), "it ended, and continues"
        if after.is_reported:
            assert after.fact.message or after.fact.state is RunState.FINISHED, "no word of its end"
            assert after.fact.ended
        if any(isinstance(one, SendRanks) and isinstance(one.command, SaveSoon) for one in actions):
            assert isinstance(event, NodesNoticed), "it saves without a notice"
            assert isinstance(before.state, Running), "ranks that leave are to train on"
            assert event.nodes - before.noticed, "a notice makes it save twice"
            assert self.now - before.saved >= REDONE_SECONDS, "it has just saved"
            assert not self.wish.restarts, "it saves nothing"
        left_by = {n for n, rank in enumerate(before.ranks) if rank.ending}
        for one in actions:
            if isinstance(one, SendRanks):
                assert not left_by & {*one.ranks}, "a rank that has left is asked"
            if isinstance(one, SendRanks) and isinstance(one.command, StopAt):
                ahead = (before.ranks[n].boundary for n in one.ranks)
                assert all(one.command.boundary > place for place in ahead), "it has passed that"
        if after.over is None:
            return
        assert (after.over.outcome is RunOutcome.ENDED) == after.is_reported, "no end, or two"
        if isinstance(follows := after.over.outcome, RunContinues):
            self.check_continued(event, after, follows)
        elif after.waits_again:
            assert not any(rank.begun for rank in after.ranks)
            assert not self.is_stopped
        if after.fact.stopped_at != NONE:
            assert after.fact.stopped_at == after.iteration, "less was done than it says"

    def check_continued(self, event: LifeEvent, after: Life, follows: RunContinues) -> None:
        assert not self.is_stopped, "it was stopped, and continues"
        assert follows.past.iteration >= after.fact.iteration
        says_kept = "continues from its newest snapshot" in follows.message
        assert not says_kept or self.snapshot != NONE, "what is lost is said to be kept"
        says_lost = "no snapshot of it is left" in follows.message
        is_known = isinstance(event, WorldEnded) and after.retry is None
        assert not (says_lost and is_known and self.snapshot != NONE), "what is kept is lost"
        if follows.failed_at != NONE:
            assert len(failures(self.past)) < self.wish.options.retries, (
                "it is tried again too often"
            )
        if isinstance(event, WorldEnded) and after.retry is None and event.deaths:
            was_failing = follows.past.state is RunState.FAILED
            are_lost = event.deaths[0].is_lost or event.is_lost
            assert was_failing or not are_lost or follows.failed_at == NONE, "no fault, but a retry"

    def end(self, life: Life) -> None:
        """Begin the next attempt, or the next run."""
        assert life.over is not None
        now = moment(self.now + 1.0)
        for event in (TimePassed(now), WorldEnded((), "", StoredRun(), now), StopAsked(now)):
            assert advance(life, event) == (life, ()), "something happens after its end"
        follows = life.over.outcome
        if isinstance(follows, RunContinues):
            self.ends[RunContinues] += 1
            past = follows.past
            attempt = Attempt(
                len(self.past) + 1, 1, past.ranks, past.started, past.ended, past.state,
                past.message, past.resumed_at, past.iteration, self.snapshot, is_automatic=True,
                failed_at=follows.failed_at, error=past.error,
            )  # fmt: skip
            self.past = (*self.past, attempt)
            self.start_attempt()
        elif follows is RunOutcome.WAITS:
            self.ends[follows] += 1
            self.start_attempt()
        else:
            self.ends[life.fact.state] += 1
            self.start_run()


@pytest.mark.parametrize(("seed", "events"), [(1, 10_000), *((n, 150) for n in range(2, 62))])
def test_a_run_keeps_its_promises_whatever_happens(seed, events) -> None:
    print(f"seed {seed}")
    history = History(seed)

    for _ in range(events):
        history.happen()

    if events == 10_000:  # each of its ends was played, many times
        ends = {RunState.FINISHED, RunState.FAILED, RunState.STOPPED, RunState.LOST, RunContinues}
        assert all(history.ends[one] >= 10 for one in ends), history.ends


def test_every_state_has_an_end_although_no_rank_answers() -> None:
    """After a stop, time alone ends a run, in whatever state it was."""
    history, found = History(3), set()

    for _ in range(2_000):
        history.happen()
        life, now, step = history.life, history.now, 0.1
        found.add(type(life.state))
        life, _ = advance(life, StopAsked(moment(now)))
        while life.over is None:
            assert now < history.now + 2_000.0, life
            now, step = now + step, step * 1.3
            life, _ = passed(life, now)

    assert found == {Beginning, Running, Moving, Stopping, Failing, Recovering, Exiting}
