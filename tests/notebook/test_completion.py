"""Tab in the line of a magic: options, values, names and files."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.notebook.kernel import Notebook
from workbench.core.run.model import RunKind, RunState, RunWish
from workbench.core.run.run_options import RunOptions
from workbench.notebook.completion import add_to, complete_line, matcher, remove_from
from workbench.store import Store


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with two scripts, and a store with two clusters and two runs."""
    monkeypatch.setenv("WORKBENCH_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    for name in ("train.py", "my model.py", "table.csv"):
        Path(name).touch()
    with Store() as store:
        for name in ("default", "spot"):
            store.wish_cluster(name, up=True, ranks=2, oversubscribe=False)
        for number, name in enumerate(("digits", "my words")):
            store.wish_run(
                RunWish(
                    f"261122-14000{number}-aaaa", name, RunKind.CELL, "", "default",
                    options=RunOptions(parameters=(("lr", 0.1),)),
                )
            )  # fmt: skip
        store.put_run_fact("261122-140000-aaaa", state=RunState.FINISHED, ended=1.0)
    return tmp_path


def texts(line: str) -> list[str]:
    found = complete_line(line)
    assert found is not None
    return [*found.texts]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("%%dist_train --co", ["--communicator", "--compress"]),
        ("run = %dist_train --co", ["--communicator", "--compress"]),
        ("%%dist_train --compress ", ["none", "fp16", "bf16", "int8", "topk", "powersgd"]),
        ("%%dist_train --compress=po", ["powersgd"]),
        ("%%dist_train --keep-batch ", ["global", "per-rank"]),
        ("%%dist_train --replay ", ["on", "off"]),
        ("%%dist_train --ranks 2 --communicator h", ["hierarchical"]),
        ("%%dist_train --param ", ["lr="]),
        ("%%dist_train --cluster s", ["spot"]),
        ("%%dist_train --ranks 2 --ra", []),
        ("%dist_train --ranks 2 t", ["train.py"]),
        ("%dist_train tab", ["table.csv"]),
        ("%dist_train m", ["'my model.py'"]),
        ("%dist_train train.py --cl", []),
        ("%dist_train train.py t", ["table.csv", "train.py"]),
        ("%dist_stop ", ["'my words'", "--cluster"]),
        ("%dist_runs ", ["'my words'", "digits", "--limit", "--all", "--delete",
                         "--older-than", "--larger-than", "--keep", "--yes"]),
        ("%dist_runs digits d", []),
        ("%dist_status --cluster nowhere", []),
        ("%dist_train --name ", []),
        ("%dist_resize ",
         ["--nodes", "--at", "--across-zones", "--oversubscribe", "--yes", "--wait",
          "--cluster"]),
        ("%dist_resize --at ", ["step", "epoch", "end"]),
    ],
)  # fmt: skip
def test_what_continues_the_line_is_offered(home, line, expected) -> None:
    assert texts(line) == expected


@pytest.mark.parametrize("line", ["", "x = 1", "%dist_trainer --co", "%time --co", "dist_train --"])
def test_a_line_of_others_is_left_alone(home, line) -> None:
    assert complete_line(line) is None


@pytest.mark.parametrize("broken", [b"", b"\0garbage" * 999])
def test_a_broken_store_offers_nothing(home, broken) -> None:
    for path in (home / "home").glob("store.sqlite3*"):
        path.unlink()
    (home / "home" / "store.sqlite3").write_bytes(broken)

    assert texts("%dist_status --cluster ") == []


def test_a_shell_asks_us_once_and_no_longer_after_unloading(shell) -> None:
    add_to(shell)
    add_to(shell)

    assert shell.Completer.custom_matchers.count(matcher) == 1
    remove_from(shell)
    assert matcher not in shell.Completer.custom_matchers


@pytest.mark.kernel
@pytest.mark.parametrize("jedi", [True, False])
def test_a_kernel_answers_a_page_that_completes(home, jedi) -> None:
    notebook = Notebook()
    try:
        notebook.run(f"get_ipython().Completer.use_jedi = {jedi}\ncompression = 1")

        assert completed(notebook, "%%dist_train --co|\nx = 1") == ["--communicator", "--compress"]
        assert completed(notebook, "%%dist_train --compress p|\nx = 1") == ["powersgd"]
        assert completed(notebook, "import os\n%dist_status --cluster |") == ["default", "spot"]
        assert completed(notebook, "%dist_train --ranks 2 tr|") == ["train.py"]
        assert "compression" in completed(notebook, "%%dist_train --ranks 2\nx = compr|")
    finally:
        notebook.close()


def completed(notebook: Notebook, code: str) -> list[str]:
    """Ask as JupyterLab does, and put each match where the answer says."""
    cursor = code.index("|")
    code = code.replace("|", "")
    message = notebook.client.complete(code, cursor, reply=True, timeout=60)
    content = message["content"]
    assert content["status"] == "ok"
    typed = code[content["cursor_start"] : content["cursor_end"]]
    assert all(match.strip("'").startswith(typed) for match in content["matches"])
    kinds = content["metadata"]["_jupyter_types_experimental"]
    assert [kind["text"] for kind in kinds] == content["matches"]
    return list(content["matches"])
