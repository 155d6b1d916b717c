"""Two users of a real JupyterHub: each has pages, clusters and limits, and nothing of the other."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

# Only root makes users, and namespaces in which they end; one hub serves all tests.
pytestmark = [pytest.mark.root, pytest.mark.mpi, pytest.mark.timeout(300)]

ROOT = Path(__file__).parents[2]
PROXY = ROOT / "extension" / "ui-tests" / "node_modules" / ".bin" / "configurable-http-proxy"
PROGRAM = Path(__file__).parent / "programs" / "hub.py"
NAMESPACES = ("--mount", "--net", "--pid", "--fork", "--kill-child", "--mount-proc")
ANN, BO = "wbann", "wbbo"


@pytest.fixture(scope="module")
def seen() -> dict[str, Any]:
    """What the program saw of a hub with two users, each with a cluster of two ranks."""
    pytest.importorskip("jupyterhub")
    if not (PROXY.exists() and shutil.which("unshare")):
        pytest.skip("needs configurable-http-proxy of extension/ui-tests, and unshare")
    answer = subprocess.run(
        ["unshare", *NAMESPACES, sys.executable, str(PROGRAM), str(PROXY)],
        env={key: value for key, value in os.environ.items() if "WORKBENCH" not in key},
        capture_output=True,
        text=True,
        check=False,
        timeout=280,
    )
    assert answer.returncode == 0, answer.stderr
    return json.loads(answer.stdout)


def test_each_user_trains_as_that_user_and_sees_only_own_runs(seen) -> None:
    assert [text.splitlines()[-1] for text in seen["ran"]] == ["uid 64101", "uid 64102"]
    assert [len(seen["runs"][user]) for user in (ANN, BO)] == [1, 1]
    assert seen["runs"][ANN] != seen["runs"][BO]


def test_a_page_follows_its_run_through_the_proxy_below_a_prefix(seen) -> None:
    assert json.loads(seen["follow"])["run"]["id"] == seen["runs"][ANN][0]


def test_a_user_gets_nothing_of_anothers_server(seen) -> None:
    assert seen["rest_as_other"] == 403
    assert "403" in seen["follow_as_other"]


def test_a_user_gets_nothing_from_what_listens_for_another(seen) -> None:
    """Keys are missing for what answers at all; MPI's daemons and Jupyter do not even that."""
    heard = dict(one.split(": ") for one in seen["ports"])

    assert heard.pop("ipykernel_launcher") == "NULL"  # Jupyter's own, which signs each message
    assert heard == {
        "jupyterhub.singleuser": "silence",
        "prterun": "silence",
        "workbench.cluster.controller": "closed",
        "workbench.cluster.engine": "closed",
        "workbench.supervisor": "closed",
    }


def test_every_door_refuses_what_the_administrator_forbids_with_the_rule(seen) -> None:
    refused = seen["refused"]
    status, refused["page"] = refused["page"]

    assert status == 409
    rule = f"allow {ANN} 2 ranks, and default would come to 3 ranks; ask for less."
    assert [name for name, text in refused.items() if rule not in text] == []
    assert {*refused} == {"page", "cell", "magic", "shell", "job", "resume"}
