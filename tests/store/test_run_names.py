"""A name means the newest run that got it, in the caller's notebook first."""

from __future__ import annotations

import pytest

from workbench.core.run.model import RunState
from workbench.core.run.origin import Origin
from workbench.errors import StateError, Unknown
from workbench.store.run_names import NOTEBOOK_VARIABLE, notebook_here


@pytest.fixture
def named(store, wish):
    """Queue a run by a name, and let it end; return its final name."""

    def named(name: str, notebook: str = "", state: RunState = RunState.FINISHED, **more) -> str:
        made = store.wish_run(wish(name, origin=Origin(notebook)), numbered=True)
        store.put_run_fact(made.id, state=state)
        return made.name

    return named


def test_a_name_means_its_newest_run_and_older_ones_are_counted_back(store, named) -> None:
    names = [named("lost") for _ in range(3)]

    assert names == ["lost", "lost 2", "lost 3"]
    assert store.run("lost").wish.name == "lost 3"
    assert [store.run(f"lost~{back}").wish.name for back in range(3)] == names[::-1]
    assert store.run("lost 2").wish.name == "lost 2"


def test_names_that_only_look_numbered_are_others(store, named) -> None:
    for name in ("lr", "lr 2", "lr 3", "lr"):
        named(name)

    assert store.run("lr").wish.name == "lr 4"
    assert store.run("lr~1").wish.name == "lr"
    assert store.run("lr 3").wish.name == "lr 3"
    with pytest.raises(Unknown, match="2 runs are called 'lr'; 'lr~1' is the oldest"):
        store.run("lr~2")


def test_the_newest_is_found_when_the_first_is_deleted(store, named) -> None:
    named("fit"), named("fit")
    store.removal.delete_run(store.run("fit~1").id)

    assert store.run("fit").wish.name == "fit 2"
    assert named("fit") == "fit 3"


def test_a_notebook_means_its_own_runs_first(store, named, monkeypatch) -> None:
    for notebook in ("/w/a.ipynb", "/w/a.ipynb", "/w/b.ipynb", ""):
        named("lost", notebook)
    monkeypatch.setenv(NOTEBOOK_VARIABLE, "/w/a.ipynb")

    found = [store.run(name).wish.name for name in ("lost", "lost~1", "lost~2", "lost~3")]

    assert found == ["lost 2", "lost", "lost 4", "lost 3"]


def test_what_is_stopped_is_a_run_that_has_not_ended(store, named) -> None:
    named("cell"), named("cell", state=RunState.RUNNING), named("cell")

    assert store.run("cell", active=True).wish.name == "cell 2"


def test_an_id_is_no_name(store, named) -> None:
    named("fit")
    run = store.run("fit")
    named(run.id)

    assert store.run(run.id).wish.name == "fit"


def test_a_name_that_was_chosen_is_refused_while_its_run_is_active(store, named, wish) -> None:
    named("fit"), named("fit", state=RunState.RUNNING)

    with pytest.raises(StateError, match=r"'fit 2' is running; .*`workbench stop 'fit 2'`"):
        store.wish_run(wish("fit"))


@pytest.mark.parametrize(
    ("value", "notebook"),
    [("/w/a.ipynb", "/w/a.ipynb"), ("console-1", ""), ("", "")],
)
def test_a_notebook_is_known_by_what_jupyter_says(monkeypatch, value, notebook) -> None:
    monkeypatch.setenv(NOTEBOOK_VARIABLE, value)

    assert notebook_here() == notebook
