"""A run knows the commit of its folder, and takes the caller's variables along."""

from __future__ import annotations

import os
import subprocess

import pytest

from workbench.core.run.model import RunKind, RunState
from workbench.core.run.run_options import RunOptions
from workbench.requests.resume import ask_resume
from workbench.requests.run import ask_run, commit_of
from workbench.store.run_names import NOTEBOOK_VARIABLE


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
