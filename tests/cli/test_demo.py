from __future__ import annotations

import importlib.util
import os
import signal

import pytest

from tests.waiting import until
from workbench.core.run.model import RunState
from workbench.requests.run import ask_run


@pytest.fixture
def cluster():
    return "demo"


@pytest.fixture
def learned(actor):
    """Have the actor play a run that reaches 98 %."""

    def learn(run):
        actor.start_run(run)
        values = {"main/loss": [2.0, 1.0, 0.1], "validation/main/accuracy": [0.5, 0.9, 0.98]}
        actor.report(run, 0, values)
        actor.end_run(run, iteration=3)

    actor.script = learn


def test_the_demo_tells_what_was_reached_and_leaves_nothing(workbench, learned, store, home):
    result = workbench("demo")

    run = store.run("demo")
    picture = home / "runs" / run.id / "curve.png"
    assert result.exit_code == 0
    assert "Test accuracy 98.0 %, after " in result.stdout
    assert str(picture) in result.stdout
    assert picture.exists()
    assert "Cluster 'demo' is deleted, and all its processes have ended." in result.stdout
    assert store.cluster_wish("demo") is None


def test_the_demo_that_fails_shows_why_and_leaves_nothing(workbench, actor, store):
    actor.script = actor.fail

    result = workbench("demo")

    assert result.exit_code == 1
    assert result.stderr.rstrip().endswith("ValueError: no")
    assert store.cluster_wish("demo") is None


def test_the_demo_that_is_interrupted_leaves_nothing(workbench, actor, store):
    actor.script = actor.interrupt

    result = workbench("demo")

    assert result.exit_code == 130
    assert store.cluster_wish("demo") is None


def test_a_terminal_that_closes_takes_the_demo_down(workbench, actor, store):
    def hang_up(run):
        actor.start_run(run)
        os.kill(os.getpid(), signal.SIGHUP)

    actor.script = hang_up

    result = workbench("demo")

    assert result.exit_code == 128 + signal.SIGHUP
    assert store.cluster_wish("demo") is None


def test_a_terminal_that_closes_while_the_run_is_written_takes_the_demo_down(
    workbench, actor, store, monkeypatch
):
    actor.script = actor.start_run

    def hung_up(*arguments, **options):
        wish = ask_run(*arguments, **options)
        until(lambda: store.run(wish.id).fact.state is RunState.RUNNING)
        os.kill(os.getpid(), signal.SIGHUP)
        return wish

    monkeypatch.setattr("workbench.cli.demo.ask_run", hung_up)

    result = workbench("demo")

    assert result.exit_code == 128 + signal.SIGHUP
    assert store.cluster_wish("demo") is None


def test_a_demo_that_is_kept_stays_up(workbench, learned, store):
    result = workbench("demo", "--keep")

    assert "delete it with `workbench delete --cluster demo`." in result.stdout
    assert store.cluster_wish("demo").up


def test_a_second_demo_leaves_the_first_alone(workbench, actor, store, script):
    actor.script = actor.start_run
    workbench("run", "--background", "--cluster", "demo", "--name", "demo", script)

    result = workbench("demo")

    assert result.exit_code == 2
    assert "A run called 'demo' is" in result.stderr
    assert store.cluster_wish("demo").up


@pytest.mark.parametrize(
    ("installed", "title"),
    [(("chainer", "torch"), "Chainer"), (("torch",), "PyTorch"), ((), "NumPy")],
)
def test_the_demo_trains_with_what_is_installed(
    workbench, actor, store, monkeypatch, installed, title
):
    found = {*installed, "mpi4py"}
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: name in found)
    actor.script = actor.fail

    result = workbench("demo")

    assert f"to train on digits with {title}." in result.stdout
    assert title in store.run("demo").wish.source
