"""What will not do is refused before anything is written or started; the rest becomes a wish."""

from __future__ import annotations

import contextlib
import fcntl
import os
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workbench.core.cluster.model import ClusterFact, ClusterState
from workbench.core.cluster.size import Size
from workbench.core.fleet.model import FleetWish, Node, NodeState, Provider
from workbench.core.run.model import RunKind, RunState
from workbench.core.run_id import is_run_id
from workbench.core.world.world import Host
from workbench.errors import InputError, MachineError, StateError
from workbench.requests.resize import ask_size
from workbench.requests.wishes import (
    LOCK_NAME,
    LOG_NAME,
    ask_cluster,
    ask_down,
    ask_run,
    check_source,
    local_hosts,
    local_slots,
    new_run_id,
    remove_cluster,
    script_source,
    supervisor_is_awake,
    wake_supervisor,
)
from workbench.store import Store
from workbench.store.paths import cluster_directory

TOO_MANY = local_slots() + 1
CELL = {"kind": RunKind.CELL, "source": "pass"}


@pytest.fixture
def store(home: Path) -> Iterator[Store]:
    with Store() as opened:
        yield opened


@pytest.fixture
def awake(home: Path) -> Iterator[None]:
    """Hold the lock as a supervisor does, so that none is started."""
    with (cluster_directory("default") / LOCK_NAME).open("wb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def started(home: Path) -> bool:
    """Whether anybody tried to start a supervisor for this data directory."""
    running = [
        process
        for process in psutil.process_iter()
        if process.pid != os.getpid() and _home_of(process) == str(home)
    ]
    return bool(running or [*home.rglob(LOG_NAME)])


def _home_of(process: psutil.Process) -> str:
    try:
        return process.environ().get("WORKBENCH_HOME", "")
    except psutil.Error:
        return ""


# -- refused


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"cluster": "../up"}, "'../up' cannot name a cluster; use 1 to 40 letters"),
        ({"name": "a/b"}, "'a/b' cannot name a run; use 1 to 80 letters"),
        ({"ranks": 0}, "ranks must be at least 1, not 0; try --ranks"),
        ({"ranks": -2}, "ranks must be at least 1, not -2; try --ranks"),
        ({"ranks": TOO_MANY}, f"{TOO_MANY} ranks were asked for, but this machine has"),
        ({"ranks": 10**6, "oversubscribe": True}, "1000000 ranks are too many"),
        ({"grace": -1.0}, "grace must be at least 0 seconds, not -1."),
    ],
)
def test_a_run_that_will_not_do_starts_nothing(store, home, options, sentence) -> None:
    with pytest.raises(InputError) as refusal:
        ask_run(store, **CELL, **options)

    assert str(refusal.value).startswith(sentence)
    assert store.runs(setups=True) == []
    assert store.clusters() == []
    assert not started(home)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"cluster": ""}, "'' cannot name a cluster"),
        ({"ranks": 0}, "ranks must be at least 1, not 0"),
        (
            {"ranks": TOO_MANY},
            f"ask for at most {local_slots()}, or let ranks share cores (--oversubscribe)",
        ),
    ],
)
def test_a_cluster_that_will_not_do_is_not_wished_for(store, home, options, sentence) -> None:
    with pytest.raises(InputError) as refusal:
        ask_cluster(store, **options)

    assert sentence in str(refusal.value)
    assert store.clusters() == []
    assert not started(home)


def test_a_name_in_use_leaves_the_cluster_as_it_is(store, home, awake) -> None:
    ask_run(store, **CELL, name="fit", ranks=1)

    with pytest.raises(StateError, match="A run called 'fit' is queued"):
        ask_run(store, **CELL, name="fit", ranks=TOO_MANY, oversubscribe=True)

    assert len(store.runs()) == 1
    assert store.cluster_wish("default").ranks == 1


def test_a_run_is_not_queued_where_its_cluster_would_be_refused(store, home) -> None:
    store.wish_cluster("default", up=False, ranks=TOO_MANY)  # by a process with more cores

    with pytest.raises(InputError, match=f"{TOO_MANY} ranks were asked for"):
        ask_run(store, **CELL)

    assert store.runs() == []
    assert not started(home)


def test_a_cluster_that_nobody_asked_for_is_not_taken_down(store, home) -> None:
    with pytest.raises(StateError) as refusal:
        ask_down(store)

    assert str(refusal.value) == "There is no cluster 'default'; nothing was deleted."
    assert not started(home)


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
def test_a_syntax_error_is_told_with_its_line(source, sentence) -> None:
    with pytest.raises(InputError) as refusal:
        check_source(source, "cell")

    assert str(refusal.value) == sentence


@settings(derandomize=True, deadline=None, max_examples=200)
@given(st.text(st.sampled_from("x=(:'\\\"\n\r\f\u2028 #")))
def test_whatever_is_wrong_with_a_source_is_told_in_a_sentence(source) -> None:
    with contextlib.suppress(InputError), warnings.catch_warnings(action="ignore"):
        check_source(source, "cell")


def test_a_cell_may_await_outside_of_functions_and_a_script_may_not() -> None:
    check_source("await f()", "cell", awaits=True)

    with pytest.raises(InputError, match="'await' outside function"):
        check_source("await f()", "script")


def test_a_source_with_a_null_character_is_refused() -> None:
    with pytest.raises(InputError, match=r"null bytes.*nothing was started"):
        check_source("x = '\0'", "cell")


# -- scripts


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


# -- wished for


def test_a_cluster_gets_all_slots_unless_told_otherwise(store, awake) -> None:
    wish = ask_cluster(store)

    assert (wish.up, wish.ranks) == (True, max(2, local_slots()))
    assert wish.oversubscribe == (local_slots() < 2)


def test_asking_for_what_is_so_is_no_new_wish(store, awake) -> None:
    ask_cluster(store, 1)

    assert ask_cluster(store, 1).revision == 1
    assert ask_cluster(store).revision == 1


def test_asking_for_another_size_is_a_new_wish(store, awake) -> None:
    ask_cluster(store, 1)

    wish = ask_cluster(store, TOO_MANY, oversubscribe=True)

    assert (wish.ranks, wish.oversubscribe, wish.revision) == (TOO_MANY, True, 2)


def test_a_cluster_that_was_taken_down_comes_back_as_it_was(store, awake) -> None:
    ask_cluster(store, TOO_MANY, oversubscribe=True)
    ask_down(store)
    assert store.cluster_wish("default").up is False

    wish = ask_cluster(store)

    assert (wish.up, wish.ranks, wish.oversubscribe, wish.revision) == (True, TOO_MANY, True, 3)


def test_asking_again_for_a_cluster_that_gave_up_lets_it_try_again(store, awake) -> None:
    ask_cluster(store, 1)
    store.put_cluster_fact(ClusterFact("default", ClusterState.FAILED))

    assert ask_cluster(store, 1).revision == 2


def test_a_run_takes_all_ranks_of_the_cluster_that_it_finds(store, awake) -> None:
    ask_cluster(store, 1)

    wish = ask_run(store, **CELL)

    assert store.run(wish.id).wish == wish
    assert (wish.ranks, wish.folder, wish.name) == (0, os.getcwd(), wish.id)
    assert store.cluster_wish("default").revision == 1


def test_a_run_brings_its_cluster_up(store, awake) -> None:
    ask_run(store, **CELL, ranks=1)

    wish = store.cluster_wish("default")
    assert (wish.up, wish.ranks) == (True, 1)


@pytest.mark.parametrize(("ranks", "size"), [(1, 2), (2, 2), (3, 3)])
def test_a_run_may_grow_its_cluster_but_never_shrinks_it(store, awake, ranks, size) -> None:
    ask_cluster(store, 2, oversubscribe=True)

    wish = ask_run(store, **CELL, ranks=ranks, oversubscribe=True)

    assert wish.ranks == ranks
    assert store.cluster_wish("default").ranks == size


def test_a_name_that_is_free_again_gets_a_number(store, awake) -> None:
    first = ask_run(store, **CELL, name="fit")
    store.put_run_fact(first.id, state=RunState.FINISHED)

    assert ask_run(store, **CELL, name="fit").name == "fit 2"


def test_ids_sort_by_time_and_differ_within_a_second() -> None:
    ids = [new_run_id(1.75e9 + later) for later in (0, 1, 86_400, 3e7, 3e7)]

    assert ids[:4] == sorted(ids[:4])
    assert ids[0].startswith("250615-150640-")
    assert len(set(ids)) == 5
    assert all(is_run_id(id_) for id_ in ids)


def test_this_machine_is_the_only_host() -> None:
    assert local_hosts() == (Host("localhost", local_slots()),)
    assert local_slots() == len(os.sched_getaffinity(0))


# -- the supervisor


def test_no_second_supervisor_is_started(store, home, awake) -> None:
    assert supervisor_is_awake("default")

    wake_supervisor("default")
    ask_run(store, **CELL, ranks=1)

    assert not started(home)


def test_a_supervisor_that_has_let_go_of_its_lock_is_not_awake(home) -> None:
    assert not supervisor_is_awake("default")

    with (cluster_directory("default") / LOCK_NAME).open("wb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        assert supervisor_is_awake("default")

    assert not supervisor_is_awake("default")


def test_looking_whether_one_is_awake_does_not_stand_in_its_way(home) -> None:
    with (cluster_directory("default") / LOCK_NAME).open("wb") as file:
        assert not supervisor_is_awake("default")

        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)

        assert supervisor_is_awake("default")


def test_another_who_looks_at_the_same_moment_is_not_taken_for_a_supervisor(home) -> None:
    with (cluster_directory("default") / LOCK_NAME).open("wb") as file:
        fcntl.flock(file, fcntl.LOCK_SH)

        assert not supervisor_is_awake("default")


def test_a_supervisor_that_cannot_be_started_is_told_with_its_log(home) -> None:
    log = cluster_directory("default") / LOG_NAME
    log.mkdir()

    with pytest.raises(MachineError) as refusal:
        wake_supervisor("default")

    assert str(refusal.value).startswith("The supervisor of cluster 'default' could not be started")
    assert str(refusal.value).endswith(f"see {log}.")


def test_a_cluster_that_is_down_wakes_nobody_to_go_down(store, home) -> None:
    store.wish_cluster("default", up=True, ranks=1)

    ask_down(store)

    assert store.cluster_wish("default").up is False
    assert not started(home)


def test_a_deleted_cluster_is_taken_off_the_lists_with_its_setups(store, home) -> None:
    store.wish_cluster("default", up=False, ranks=1)
    store.put_setup("default", "cell", "1")

    remove_cluster(store)

    assert store.clusters() == []
    assert store.setups("default") == []


@pytest.mark.parametrize(("up", "state"), [(True, "ready"), (False, "stopping"), (True, "down")])
def test_a_cluster_that_is_not_deleted_is_not_removed(store, home, up, state) -> None:
    store.wish_cluster("default", up=up, ranks=1)
    store.put_cluster_fact(ClusterFact("default", ClusterState(state)))

    with pytest.raises(StateError, match="not deleted; delete it first"):
        remove_cluster(store)

    assert store.cluster_wish("default") is not None


def test_wishes_import_nothing_that_trains_or_steers() -> None:
    program = (
        "import sys, workbench.requests.wishes\n"
        "print(*{'chainer', 'mpi4py', 'ipyparallel', 'zmq'} & sys.modules.keys())"
    )

    answer = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )

    assert answer.stdout.strip() == ""


NODES = FleetWish(
    Provider.HOSTS, nodes=2, hosts=(Host("10.0.0.4", 1), Host("10.0.0.10", 1), Host("10.0.0.11", 1))
)


def test_a_cluster_stands_on_the_nodes_it_was_given(store, awake) -> None:
    wish = ask_cluster(store, fleet=NODES)

    assert (wish.ranks, wish.fleet) == (2, NODES)
    assert ask_cluster(store).fleet == NODES
    assert ask_size(store, Size(nodes=3)).ranks == 3
    assert (ask_size(store, Size(nodes=0)).ranks, ask_size(store, Size(nodes=0)).up) == (0, True)


def test_nodes_of_another_place_are_not_left_behind(store, awake) -> None:
    ask_cluster(store, fleet=NODES)

    with pytest.raises(StateError, match="'default' is on ssh hosts; delete it first"):
        ask_cluster(store, 2, fleet=FleetWish())


@pytest.mark.parametrize(
    ("state", "nodes"),
    [(ClusterState.STOPPING, []), (ClusterState.DOWN, [Node("i-1", NodeState.ASKED)])],
)
def test_nodes_that_are_still_being_deleted_are_not_left_behind(store, awake, state, nodes) -> None:
    ask_cluster(store, fleet=NODES)
    store.put_cluster_fact(ClusterFact("default", state))
    store.put_nodes("default", nodes)
    ask_down(store)

    with pytest.raises(StateError, match="'default' on ssh hosts is still being deleted"):
        ask_run(store, **CELL)

    assert store.runs() == []


def test_this_machine_has_no_number_of_nodes(store, awake) -> None:
    ask_cluster(store, 1)

    with pytest.raises(InputError, match="runs on this machine alone"):
        ask_size(store, Size(nodes=2))


@pytest.mark.parametrize(
    "place", [place for place in Provider if place is not Provider.THIS_MACHINE]
)
@pytest.mark.parametrize(
    "ask",
    [lambda store: ask_run(store, **CELL), lambda store: ask_run(store, **CELL, ranks=1),
     ask_cluster, lambda store: ask_cluster(store, 1)],
)  # fmt: skip
def test_after_a_deletion_a_start_takes_this_machine(store, awake, place, ask) -> None:
    fleet = FleetWish(place, nodes=2, hosts=NODES.hosts, budget=3.0, expires=1.0)
    store.wish_cluster("default", up=False, ranks=0, oversubscribe=True, fleet=fleet)

    ask(store)

    wish = store.cluster_wish("default")
    assert (wish.up, wish.fleet) == (True, FleetWish())
    assert wish.ranks in (1, max(2, local_slots()))


def test_a_deleted_cluster_is_not_given_nodes_again_unasked(store, home) -> None:
    store.wish_cluster("default", up=False, ranks=0, fleet=FleetWish(Provider.EC2, nodes=2))

    with pytest.raises(StateError, match="'default' is deleted; start a new one"):
        ask_size(store, Size(nodes=1))

    assert not store.cluster_wish("default").up
    assert not started(home)


def test_a_deleted_cluster_is_started_with_nodes_that_were_agreed_to(store, awake) -> None:
    fleet = FleetWish(Provider.EC2, nodes=2)
    store.wish_cluster("default", up=False, ranks=0, fleet=fleet)

    assert ask_cluster(store, fleet=fleet).fleet == fleet


def test_set_up_cells_go_with_their_cluster(store, awake) -> None:
    ask_cluster(store, 1)
    store.put_setup("default", "network", "pass")
    store.put_setup("other", "network", "pass")

    ask_down(store)

    assert (store.setups("default"), store.setups("other")) == ([], [("network", "pass")])


def test_a_run_on_a_cluster_whose_time_is_over_is_refused(store, home) -> None:
    fleet = FleetWish(Provider.REHEARSAL, nodes=2, expires=1.0)
    store.wish_cluster("default", up=True, ranks=0, fleet=fleet)

    with pytest.raises(StateError, match="time to live"):
        ask_run(store, **CELL)

    assert not started(home)
