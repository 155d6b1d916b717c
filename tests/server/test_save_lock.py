"""One page after another saves a notebook."""

from __future__ import annotations

import asyncio

import pytest

from workbench.server.rest import SAVE_LOCK_SECONDS, SaveLocks

ONE, TWO, PATH = "page-one", "page-two", "folder/a.ipynb"


def test_a_turn_is_one_pages_until_it_ends_it() -> None:
    save_lock = SaveLocks()

    assert save_lock.take(ONE, PATH, 0.0)
    assert not save_lock.take(TWO, PATH, 1.0)
    assert save_lock.take(ONE, PATH, 1.0)
    save_lock.end(ONE)
    assert save_lock.take(TWO, PATH, 2.0)


def test_no_one_ends_anothers_turn() -> None:
    save_lock = SaveLocks()
    save_lock.take(ONE, PATH, 0.0)

    save_lock.end(TWO)

    assert not save_lock.take(TWO, PATH, 1.0)


def test_a_page_that_is_gone_holds_no_one_up_for_long() -> None:
    save_lock = SaveLocks()
    save_lock.take(ONE, PATH, 0.0)
    save_lock.take(ONE, PATH, SAVE_LOCK_SECONDS - 1)  # to ask again makes it no longer

    assert not save_lock.take(TWO, PATH, SAVE_LOCK_SECONDS - 1)
    assert save_lock.take(TWO, PATH, SAVE_LOCK_SECONDS)
    assert not save_lock.take(ONE, PATH, SAVE_LOCK_SECONDS)


def test_turns_at_other_notebooks_are_others() -> None:
    save_lock = SaveLocks()
    save_lock.take(ONE, PATH, 0.0)

    assert save_lock.take(TWO, "b.ipynb", 0.0)


def test_turns_that_are_over_leave_nothing() -> None:
    save_lock = SaveLocks()
    for number in range(100):
        save_lock.take(ONE, f"{number}.ipynb", float(number))

    assert repr(save_lock) == f"<SaveLocks at {SAVE_LOCK_SECONDS:.0f} notebooks>"


async def test_of_many_pages_that_ask_at_once_one_has_its_turn(ask) -> None:
    asked = [ask("PUT", "turns", f"page-{i:04}", body={"path": PATH}) for i in range(10)]

    answers = await asyncio.gather(*asked)

    assert [answer.status for answer in answers] == [200] * 10
    assert sum(answer.json["granted"] for answer in answers) == 1


async def test_a_turn_is_refused_given_back_and_granted(ask) -> None:
    said = [
        await ask("PUT", "turns", ONE, body={"path": PATH}),
        await ask("PUT", "turns", TWO, body={"path": PATH}),
        await ask("DELETE", "turns", TWO),
        await ask("PUT", "turns", TWO, body={"path": PATH}),
        await ask("DELETE", "turns", ONE),
        await ask("DELETE", "turns", ONE),
        await ask("PUT", "turns", TWO, body={"path": PATH}),
    ]

    granted = [answer.json["granted"] for answer in said if answer.status == 200]
    assert granted == [True, False, False, True]
    assert [answer.status for answer in said if answer.status != 200] == [204] * 3


async def test_a_turn_that_no_one_ends_is_over_after_a_while(ask, extension) -> None:
    extension.turns.seconds = 0.05
    await ask("PUT", "turns", ONE, body={"path": PATH})
    await asyncio.sleep(0.1)

    answer = await ask("PUT", "turns", TWO, body={"path": PATH})

    assert answer.json == {"granted": True}


@pytest.mark.parametrize(
    ("holder", "body", "said"),
    [
        (ONE, None, "lacks 'path'"),
        (ONE, {"path": 7}, "path is 7"),
        (ONE, {"path": ""}, "path is ''"),
        (ONE, {"path": "a" * 5000}, "length <= 4096"),
        (ONE, {"path": PATH, "for": 9}, "unknown field 'for'"),
        (ONE, "a" * 200_000, "send at most 128,000"),
        (ONE, "[", "expected JSON"),
        ("short", {"path": PATH}, "No turn has the id 'short'"),
        ("page one!", {"path": PATH}, "No turn has the id 'page one!'"),
    ],
)
async def test_what_cannot_be_a_turn_is_refused_with_a_sentence(ask, holder, body, said) -> None:
    answer = await ask("PUT", "turns", holder, body=body)

    assert (answer.status, answer.json["reason"]) == (400, "workbench")
    assert said in answer.message
