"""Every option is declared once: what a line and a job file take, and what ranks get of it."""

from __future__ import annotations

from dataclasses import fields
from typing import get_args, get_type_hints

import pytest

from workbench.core.fleet.request import FleetRequest
from workbench.core.option import JOB, NEEDS, Option
from workbench.core.options.table import OPTIONS, options_of, variables
from workbench.core.run.run_options import CODECS, COMMUNICATORS
from workbench.errors import InputError
from workbench.pages.requests import SizeRequest

PLACES = sorted({place for option in OPTIONS for place in option.on})


def option(name: str, place: str) -> Option:
    return next(one for one in options_of(place) if one.name == name)


@pytest.mark.parametrize("place", PLACES)
def test_no_two_options_of_a_place_are_called_or_typed_alike(place: str) -> None:
    names = [one.name for one in options_of(place)]
    typed = [text for one in options_of(place) for text in one.spellings]

    assert len({*names}) == len(names)
    assert len({*typed}) == len(typed)


@pytest.mark.parametrize("one", OPTIONS, ids=lambda one: f"{one.name}-{one.on[0]}")
def test_an_option_is_explained_in_one_sentence(one: Option) -> None:
    assert one.help[0].isupper()
    assert one.help.endswith(".")
    assert "if not" not in one.help


@pytest.mark.parametrize("place", [JOB, NEEDS])
def test_a_field_takes_its_own_example(place: str) -> None:
    for one in options_of(place):
        if one.name != "needs":
            example = one.example
            parts = [*example.values()] if isinstance(example, dict) else example
            for part in parts if one.many else [example]:
                assert one.value.take(part) is not None


def test_every_request_about_nodes_can_be_typed_and_written() -> None:
    asked = {one.name for one in fields(FleetRequest)} - {"provider"}

    assert asked <= {one.name for one in options_of("up")}
    assert asked <= {one.name for one in (*options_of(JOB), *options_of(NEEDS))}


def test_what_ranks_read_is_the_same_wherever_it_is_given() -> None:
    read = {one.name for one in options_of("run") if one.variable}

    assert read == {one.name for one in options_of(JOB) if one.variable}
    assert read <= {one.name for one in options_of("%dist_train") if one.variable}


def test_a_page_asks_for_what_can_be_typed() -> None:
    typed = {one.name: one.value.names for one in options_of("resize")}
    asked = get_type_hints(SizeRequest)

    assert asked.keys() - {"agreed", "form"} <= typed.keys()  # a form has options of `up`
    assert get_args(asked["at"]) == typed["at"]


def test_what_is_not_asked_for_is_not_set() -> None:
    assert variables({"communicator": None, "double_buffering": False, "ranks": 2}) == ()


def test_what_ranks_read_becomes_variables() -> None:
    given = {"communicator": "ring", "compress": "powersgd", "double_buffering": True,
             "keep_batch": "per-rank", "replay": "off"}  # fmt: skip

    assert variables(given) == (
        ("WORKBENCH_COMMUNICATOR", "ring"),
        ("WORKBENCH_COMPRESS", "powersgd"),
        ("WORKBENCH_DOUBLE_BUFFERING", "1"),
        ("WORKBENCH_BATCH", "per-rank"),
        ("WORKBENCH_REPLAY", "off"),
    )


@pytest.mark.parametrize(
    ("name", "typed", "sentence"),
    [
        ("communicator", "rings", "There is no communicator 'rings'; did you mean 'ring'?"),
        ("compress", "int4", "There is no compression 'int4'; did you mean 'int8'?"),
        ("communicator", "horovod", "use one of auto, ring, hierarchical, mpi."),
        ("keep_batch", "64", "There is no batch to keep '64'; use one of global, per-rank."),
        ("replay", "never", "There is no replay 'never'; use one of on, off."),
        ("ranks", "two", "--ranks must be a whole number from 1 to 4096, not 'two'."),
        ("name", "?", "'?' cannot name a run"),
    ],
)
def test_a_word_that_is_no_value_is_refused_with_the_remedy(name, typed, sentence) -> None:
    with pytest.raises(InputError) as caught:
        option(name, "%dist_train").read(typed)

    assert sentence in str(caught.value)


def test_a_time_to_move_is_one_of_three() -> None:
    with pytest.raises(InputError, match='--at must be "step", "epoch" or "end", not \'now\''):
        option("at", "resize").read("now")


def test_the_names_of_communicators_and_codecs_are_in_their_help() -> None:
    assert ", ".join(COMMUNICATORS) in option("communicator", "run").help
    assert all(codec in option("compress", "run").help for codec in CODECS)
