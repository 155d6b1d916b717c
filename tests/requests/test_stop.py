"""Who stops a run says which, or means the one that goes on."""

from __future__ import annotations

import pytest

from workbench.core.run.model import RunState
from workbench.errors import StateError
from workbench.requests.stop import ask_stop, stop_line


def test_without_a_name_the_run_that_goes_on_is_asked(store, queue):
    first, second = queue("first"), queue("second")

    asked = ask_stop(store, None, "default")

    assert stop_line(asked) == "Asked run 'first' to stop."
    assert (store.run(first.id).wish.stop, store.run(second.id).wish.stop) == (True, False)


def test_a_run_that_has_ended_is_left_as_it_is(store, queue):
    run = queue("digits")
    store.put_run_fact(run.id, state=RunState.FINISHED)

    asked = ask_stop(store, "digits", "default")

    assert stop_line(asked) == "Run 'digits' had ended already (finished)."
    assert not store.run(run.id).wish.stop


def test_without_any_run_the_listing_is_named(store):
    with pytest.raises(StateError, match="list earlier runs with `workbench runs`"):
        ask_stop(store, None, "default")
