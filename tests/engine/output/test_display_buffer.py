"""The newest displays are taken, in order with the text, with limits of size and rate."""

from __future__ import annotations

from workbench.core.run.display import CLEAR, DISPLAY, RUN_DISPLAYS, UPDATE, Display
from workbench.core.run.rank_protocol import Ending, decode_message
from workbench.engine.output import display_buffer

PNG = {"image/png": "AAAA"}


def brief(batch) -> list[tuple[str, object]]:
    """What a batch has, in its order."""
    return [
        (one.action, one.data.get("text/plain", "") if one.data else one.place)
        if isinstance(one, Display)
        else (one.stream, one.text)
        for one in batch.chunks
    ]


def show(log, words: str, identity: str = "", *, update: bool = False) -> None:
    log.display({"text/plain": words}, {}, identity, update=update)


def all_taken(log) -> list:
    """Take all batches that there are; return what they have, in order."""
    batches = iter(log.take, None)
    return [one for line in batches for one in decode_message(line).chunks]


def test_a_display_is_taken_in_order_with_the_text(log, taken) -> None:
    log.write("stdout", "a\n")
    log.display(PNG, {"image/png": {"width": 3}})
    log.write("stdout", "b\n")

    first, shown, last = taken().chunks

    assert (first.text, last.text) == ("a\n", "b\n")
    assert (shown.place, shown.data) == (1, PNG)
    assert shown.metadata == {"image/png": {"width": 3}}


def test_of_many_updates_the_last_is_taken(log, taken) -> None:
    show(log, "0", "bar")
    assert brief(taken()) == [(DISPLAY, "0")]

    for step in range(1, 100):
        show(log, str(step), "bar", update=True)

    assert brief(taken()) == [(UPDATE, "99")]


def test_an_update_changes_all_places_that_have_its_name_and_no_others(log, taken) -> None:
    show(log, "a", "x")
    show(log, "b", "y")
    show(log, "c", "x")
    taken()

    show(log, "d", "x", update=True)
    show(log, "e", "unknown", update=True)

    assert [(one.place, one.data["text/plain"]) for one in taken().chunks] == [(1, "d"), (3, "d")]


def test_clearing_takes_away_what_was_not_taken_yet_and_leaves_text_for_the_log(log, taken) -> None:
    log.write("stdout", "a\n")
    show(log, "old")
    log.clear(wait=False)
    show(log, "new")

    assert brief(taken()) == [("stdout", "a\n"), (CLEAR, 0), (DISPLAY, "new")]


def test_a_clearing_that_waits_comes_with_what_is_shown_next(log, taken) -> None:
    show(log, "old")
    log.clear(wait=True)
    assert brief(taken()) == [(DISPLAY, "old")]

    log.write("stdout", "a\n")

    assert brief(taken()) == [(CLEAR, 0), ("stdout", "a\n")]


def test_a_clearing_that_nothing_follows_changes_nothing(log, taken) -> None:
    show(log, "old")
    log.clear(wait=True)
    log.finish(Ending("finished"))

    assert brief(taken()) == [(DISPLAY, "old")]


def test_a_loop_that_draws_again_and_again_costs_one_drawing(log, taken) -> None:
    for step in range(100):
        log.clear(wait=True)
        show(log, str(step))

    assert brief(taken()) == [(CLEAR, 0), (DISPLAY, "99")]


def test_an_update_of_what_was_cleared_is_passed_over(log, taken) -> None:
    show(log, "a", "x")
    log.clear(wait=False)

    show(log, "b", "x", update=True)

    assert brief(taken()) == [(CLEAR, 0)]


def test_too_many_displays_are_left_out_with_a_sentence_and_their_number(log, taken) -> None:
    for number in range(RUN_DISPLAYS + 3):
        show(log, str(number))
    log.finish(Ending("finished"))

    *shown, said = brief(taken())

    assert len(shown) == RUN_DISPLAYS
    assert said == (
        "stderr", display_buffer.FULL + "workbench: 3 displays of this rank were left out.\n"
    )  # fmt: skip


def test_clearing_makes_room(log, taken) -> None:
    for number in range(RUN_DISPLAYS):
        show(log, str(number))
    log.clear(wait=True)

    show(log, "next")

    assert brief(taken()) == [(CLEAR, 0), (DISPLAY, "next")]


def test_displays_of_together_too_many_characters_are_left_out(log) -> None:
    for _ in range(12):
        show(log, "x" * 1_900_000)
    log.finish(Ending("finished"))

    chunks = all_taken(log)

    assert sum(isinstance(one, Display) for one in chunks) == 10
    assert chunks[-1].text.startswith(display_buffer.FULL)


def test_a_display_that_grows_beyond_all_room_says_so(log) -> None:
    for _ in range(10):
        show(log, "x" * 1_900_000)
    show(log, "", "x")
    show(log, "y" * 1_900_000, "x", update=True)
    log.finish(Ending("finished"))

    assert all_taken(log)[-1].data == {"text/plain": display_buffer.TOO_LARGE}


def test_much_at_once_waits_and_the_text_behind_it_with_it(log, taken) -> None:
    for _ in range(3):
        show(log, "x" * 1_900_000)
    all_taken(log)
    show(log, "next")
    log.write("stdout", "b\n")

    assert log.take() is None

    log.finish(Ending("finished"))
    assert brief(taken()) == [(DISPLAY, "next"), ("stdout", "b\n")]
