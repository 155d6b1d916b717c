"""Invalid runs start nothing; valid ones are queued with their origin, or stopped."""

from __future__ import annotations

import contextlib
import os
import subprocess
import warnings

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.requests.conftest import has_started
from workbench.core.cluster.model import ClusterFact, ClusterState
from workbench.core.fleet.model import FleetWish, Node, NodeState
from workbench.core.run.model import RunKind, RunState, usual_name
from workbench.core.run.run_options import RunOptions
from workbench.core.run_id import is_run_id
from workbench.core.world.world import Host
from workbench.errors import InputError, StateError
from workbench.requests.cluster import ask_cluster, ask_down, local_slots
from workbench.requests.resume import ask_resume
from workbench.requests.run import (
    ask_run,
    ask_stop,
    check_source,
    commit_of,
    module_source,
    new_run_id,
    script_of,
    script_source,
    stop_line,
    stray_sentence,
)
from workbench.requests.run_deletion import find_chosen
from workbench.store.run_names import NOTEBOOK_VARIABLE

TOO_MANY = local_slots() + 1
CELL = {"kind": RunKind.CELL, "source": "pass"}

NODES = FleetWish(
    "hosts", nodes=2, hosts=(Host("10.0.0.4", 1), Host("10.0.0.10", 1), Host("10.0.0.11", 1))
)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"cluster": "../up"}, "'../up' cannot name a cluster; use 1 to 40 letters"),
        ({"name": "a/b"}, "'a/b' cannot name a run; use 1 to 80 letters"),
        ({"options": RunOptions(0)}, "ranks must be at least 1, not 0; try --ranks"),
        ({"options": RunOptions(-2)}, "ranks must be at least 1, not -2; try --ranks"),
        (
            {"options": RunOptions(TOO_MANY)},
            f"{TOO_MANY} ranks were asked for, but this machine has",
        ),
        ({"options": RunOptions(10**6), "oversubscribe": True}, "1000000 ranks are too many"),
        ({"options": RunOptions(grace=-1.0)}, "grace must be at least 0 seconds, not -1."),
        (
            {"options": RunOptions(retries=-1)},
            "retries must be a number from 0 to 1,0",
        ),
    ],
)
def test_a_run_that_is_not_valid_starts_nothing(store, home, options, sentence) -> None:
    with pytest.raises(InputError) as refusal:
        ask_run(store, **CELL, **options)

    assert str(refusal.value).startswith(sentence)
    assert store.runs(setups=True) == []
    assert store.clusters() == []
    assert not has_started(home)


def test_a_name_in_use_leaves_the_cluster_as_it_is(store, home, awake) -> None:
    ask_run(store, **CELL, name="fit", options=RunOptions(ranks=1))

    with pytest.raises(StateError, match="A run called 'fit' is queued"):
        ask_run(store, **CELL, name="fit", options=RunOptions(ranks=TOO_MANY), oversubscribe=True)

    assert len(store.runs()) == 1
    assert store.cluster_wish("default").ranks == 1


def test_a_run_is_not_queued_where_its_cluster_would_be_refused(store, home) -> None:
    store.wish_cluster("default", up=False, ranks=TOO_MANY)  # by a process with more cores

    with pytest.raises(InputError, match=f"{TOO_MANY} ranks were asked for"):
        ask_run(store, **CELL)

    assert store.runs() == []
    assert not has_started(home)


@pytest.mark.parametrize(
    ("source", "sentence"),
    [
        ("x = 1\nfor\n", "cell, line 2: invalid syntax: 'for'; nothing was started."),
        ("  x = 1", "cell, line 1: unexpected indent: 'x = 1'; nothing was started."),
        (
            "x\nreturn 1",
            "cell, line 2: 'return' outside function: 'return 1'; nothing was started.",
        ),
    ],
)
def test_a_syntax_error_is_reported_with_its_line(source, sentence) -> None:
    with pytest.raises(InputError) as refusal:
        check_source(source, "cell")

    assert str(refusal.value) == sentence


@settings(derandomize=True, deadline=None, max_examples=200)
@given(st.text(st.sampled_from("x=(:'\\\"\n\r\f\u2028 #")))
def test_whatever_is_wrong_with_a_source_is_reported_in_a_sentence(source) -> None:
    with contextlib.suppress(InputError), warnings.catch_warnings(action="ignore"):
        check_source(source, "cell")


def test_a_cell_may_await_outside_of_functions_and_a_script_may_not() -> None:
    check_source("await f()", "cell", awaits=True)

    with pytest.raises(InputError, match="'await' outside function"):
        check_source("await f()", "script")


def test_a_source_with_a_null_character_is_refused() -> None:
    with pytest.raises(InputError, match=r"null bytes.*nothing was started"):
        check_source("x = '\0'", "cell")


def test_a_script_is_read_with_its_absolute_path(tmp_path, monkeypatch) -> None:
    (tmp_path / "train.py").write_text("print('ä')\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)

    assert script_source("train.py") == (str(tmp_path / "train.py"), "print('ä')\n")


@pytest.mark.parametrize(
    "content",
    [b"\xef\xbb\xbfname = '\xc3\xa4'\r\n", b"# coding: latin-1\nname = '\xe4'\n"],
    ids=["byte order mark", "coding line"],
)
def test_a_script_is_read_as_python_reads_it(tmp_path, content) -> None:
    (tmp_path / "train.py").write_bytes(content)

    _, source = script_source(str(tmp_path / "train.py"))

    space: dict[str, str] = {}
    exec(source, space)
    assert space["name"] == "ä"


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (None, "No such file or directory"),
        (b"name = '\xe4'\n", "not text in UTF-8 or as its first line says"),
        (b"# coding: klingon\n", "not text in UTF-8 or as its first line says"),
    ],
)
def test_a_script_that_cannot_be_read_is_refused(tmp_path, content, reason) -> None:
    path = tmp_path / "train.py"
    if content is not None:
        path.write_bytes(content)

    with pytest.raises(InputError) as refusal:
        script_source(str(path))

    assert str(refusal.value) == f"The script {path} cannot be read ({reason})."


def test_a_folder_is_no_script(tmp_path) -> None:
    with pytest.raises(InputError, match=r"cannot be read \(Is a directory\)"):
        script_source(str(tmp_path))


def test_a_script_with_a_syntax_error_is_refused_with_its_line(tmp_path) -> None:
    (tmp_path / "train.py").write_text("import os\n\nprint('hi'\n")

    with pytest.raises(InputError, match=rf"{tmp_path}/train.py, line 3: '\(' was never closed"):
        script_source(str(tmp_path / "train.py"))


def test_a_run_takes_all_ranks_of_the_cluster_that_it_finds(store, awake) -> None:
    ask_cluster(store, 1)

    wish = ask_run(store, **CELL)

    assert store.run(wish.id).wish == wish
    assert (wish.options.ranks, wish.folder, wish.name) == (None, os.getcwd(), "cell")
    assert store.cluster_wish("default").revision == 1


def test_a_run_brings_its_cluster_up(store, awake) -> None:
    ask_run(store, **CELL, options=RunOptions(ranks=1))

    wish = store.cluster_wish("default")
    assert (wish.up, wish.ranks) == (True, 1)


@pytest.mark.parametrize(("ranks", "size"), [(1, 2), (2, 2), (3, 3)])
def test_a_run_may_grow_its_cluster_but_never_shrinks_it(store, awake, ranks, size) -> None:
    ask_cluster(store, 2, oversubscribe=True)

    wish = ask_run(store, **CELL, options=RunOptions(ranks=ranks), oversubscribe=True)

    assert wish.options.ranks == ranks
    assert store.cluster_wish("default").ranks == size


def test_a_name_that_is_free_again_gets_a_number(store, awake) -> None:
    first = ask_run(store, **CELL, name="fit")
    store.put_run_fact(first.id, state=RunState.FINISHED)

    assert ask_run(store, **CELL, name="fit").name == "fit 2"


def test_runs_without_a_name_are_called_as_help_says(store, awake, tmp_path) -> None:
    script = {"kind": RunKind.SCRIPT, "source": "1", "path": "/w/train one(2).py"}

    names = [ask_run(store, **one).name for one in (CELL, CELL, script, script)]

    assert names == ["cell", "cell 2", "train one-2", "train one-2 2"]
    assert usual_name("/w/__.py") == "script"


def test_a_name_deletes_its_newest_run_alone(store, awake) -> None:
    for _ in range(2):
        store.put_run_fact(ask_run(store, **CELL, name="fit").id, state=RunState.FINISHED)

    found = find_chosen(store, ["fit", "fit 2"])

    assert [run.name for run in found] == ["fit 2"]


@pytest.mark.parametrize(
    ("name", "path", "full"),
    [
        ("pack.train", "pack/train.py", "pack.train"),
        ("pack", "pack/__main__.py", "pack.__main__"),
        ("single", "single.py", "single"),
        ("spaced.deep.train", "spaced/deep/train.py", "spaced.deep.train"),
    ],
)
def test_a_module_is_found_without_importing_it(tmp_path, monkeypatch, name, path, full) -> None:
    for one in ("pack", "spaced/deep"):
        (tmp_path / one).mkdir(parents=True)
    for one in ("pack/__init__", "pack/train", "pack/__main__", "single", "spaced/deep/train"):
        (tmp_path / f"{one}.py").write_text("raise ValueError('imported')\n")
    monkeypatch.chdir(tmp_path)

    assert module_source(name) == (str(tmp_path / path), "raise ValueError('imported')\n", full)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("absent", "no module 'absent' in "),
        ("json.absent", "no module 'json.absent' in "),
        ("json", "no module 'json.__main__' in "),
        ("math", "'math' is not written in Python"),
    ],
)
def test_a_module_that_cannot_be_run_is_named(name, says) -> None:
    with pytest.raises(InputError, match=says):
        module_source(name)


def test_another_launcher_in_a_script_s_place_is_said_in_our_words() -> None:
    with pytest.raises(InputError, match=r"is `workbench run --ranks 2 a\.py` here"):
        script_of(["mpiexec", "-n", "2", "python", "a.py"])


def test_an_option_of_ours_after_the_script_is_said_unless_the_script_has_it() -> None:
    ours, words = {"--cluster", "--name", "-m"}, ["train.py", "-m", "--lr=1", "--cluster=x"]

    assert stray_sentence(words, "import sys", ours) == (
        "--cluster is after train.py, so the script gets it; workbench's own options are before "
        "the script."
    )
    assert stray_sentence(words, "p.add_argument('--cluster')", ours) == ""
    assert stray_sentence(["train.py"], "", ours) == ""


def test_ids_sort_by_time_and_differ_within_a_second() -> None:
    ids = [new_run_id(1.75e9 + later) for later in (0, 1, 86_400, 3e7, 3e7)]

    assert ids[:4] == sorted(ids[:4])
    assert ids[0].startswith("250615-150640-")
    assert len(set(ids)) == 5
    assert all(is_run_id(id_) for id_ in ids)


@pytest.mark.parametrize(
    ("state", "nodes"),
    [(ClusterState.STOPPING, []), (ClusterState.DOWN, [Node("i-1", NodeState.ASKED)])],
)
def test_nodes_that_are_still_being_deleted_are_not_left_behind(store, awake, state, nodes) -> None:
    ask_cluster(store, fleet=NODES)
    store.put_cluster_fact(ClusterFact("default", state))
    store.fleets.put_nodes("default", nodes)
    ask_down(store)

    with pytest.raises(StateError, match="'default' on ssh hosts is still being deleted"):
        ask_run(store, **CELL)

    assert store.runs() == []


def test_a_run_on_a_cluster_whose_time_is_over_is_refused(store, home) -> None:
    fleet = FleetWish("rehearsal", nodes=2, expires=1.0)
    store.wish_cluster("default", up=True, ranks=0, fleet=fleet)

    with pytest.raises(StateError, match="time to live"):
        ask_run(store, **CELL)

    assert not has_started(home)


def test_without_a_name_the_run_that_continues_is_asked(store, queue):
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


@pytest.fixture
def repository(tmp_path):
    def git(*words: str) -> str:
        identity = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
        command = ["git", "-C", str(tmp_path), *identity, *words]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    git("init", "--quiet")
    git("commit", "--quiet", "--allow-empty", "--message", "first")
    (tmp_path / "below").mkdir()
    return tmp_path, git("rev-parse", "HEAD")


@pytest.fixture
def restarting(store):
    """Queue a script that loads its own state, and let it fail; return its id."""

    def make() -> str:
        script = ask_run(
            store,
            kind=RunKind.SCRIPT,
            source="pass",
            path="/w/train.py",
            options=RunOptions(restart=True),
        )
        store.put_run_fact(script.id, state=RunState.FAILED)
        return script.id

    return make


def test_the_commit_is_that_of_the_run_s_folder(repository) -> None:
    folder, commit = repository

    assert commit_of(str(folder / "below")) == commit[:12]


def test_without_git_there_is_no_commit(repository, tmp_path_factory, monkeypatch) -> None:
    outside = tmp_path_factory.mktemp("outside")
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(outside.parent))

    assert commit_of(str(outside)) == commit_of(str(outside / "gone")) == ""
    monkeypatch.setenv("PATH", str(outside))
    assert commit_of(str(repository[0])) == ""


def test_a_request_keeps_where_it_was_made(store, awake, repository, monkeypatch) -> None:
    folder, commit = repository
    monkeypatch.setenv(NOTEBOOK_VARIABLE, str(folder / "a.ipynb"))
    monkeypatch.setenv("OMP_NUM_THREADS", "2")

    asked = ask_run(store, kind=RunKind.CELL, source="pass", folder=str(folder))

    origin = store.run(asked.id).wish.origin
    assert (origin.notebook, origin.commit) == (str(folder / "a.ipynb"), commit[:12])
    assert dict(origin.environment)["OMP_NUM_THREADS"] == "2"
    assert os.environ["OMP_NUM_THREADS"] == "2"


def test_a_run_that_is_resumed_takes_the_variables_of_who_resumes_it(
    store, awake, monkeypatch, restarting
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    run = restarting()
    monkeypatch.setenv("OMP_NUM_THREADS", "4")

    kept = ask_resume(store, run).origin.environment
    store.put_run_fact(run, state=RunState.FAILED)
    changed = ask_resume(store, run, from_here=True).origin.environment

    assert (dict(kept)["OMP_NUM_THREADS"], dict(changed)["OMP_NUM_THREADS"]) == ("2", "4")
