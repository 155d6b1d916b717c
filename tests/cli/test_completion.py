"""Tab in real shells: what it offers, how quickly, and that it never says anything else."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from workbench.core.run.model import RunKind, RunState, RunWish
from workbench.core.run.run_options import RunOptions
from workbench.store import Store

BIN = Path(sys.executable).parent
MOST_SECONDS = 0.3

BASH = """
eval "$(workbench completion bash)"
line=$1
COMP_WORDS=($line); [[ $line == *' ' ]] && COMP_WORDS+=('')
COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); COMP_LINE=$line; COMP_POINT=${#line}
handler=$(complete -p workbench | sed 's/.*-F \\([^ ]*\\).*/\\1/')
compopt() { echo compopt "$@"; }
"$handler" workbench "${COMP_WORDS[COMP_CWORD]}"
for offered in "${COMPREPLY[@]}"; do echo "$offered"; done
"""


@pytest.fixture
def filled(home: Path) -> Path:
    """A store with two clusters and three runs."""
    with Store() as store:
        for name in ("default", "spot"):
            store.wish_cluster(name, up=True, ranks=2, oversubscribe=False)
        for number, name in enumerate(("digits", "digits 2", "words")):
            wish = RunWish(
                f"261122-14000{number}-aaaa", name, RunKind.SCRIPT, "", "default",
                options=RunOptions(parameters=(("lr", 0.1), ("tag", "a"))),
            )  # fmt: skip
            store.wish_run(wish)
        store.put_run_fact("261122-140000-aaaa", state=RunState.FINISHED, ended=1.0)
    return home


def environment() -> dict[str, str]:
    return {**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}"}


def asked(line: str) -> subprocess.CompletedProcess[str]:
    """Ask as the script in a shell asks."""
    words = line.split(" ")
    return subprocess.run(
        [BIN / "workbench"],
        env={
            **environment(),
            "_WORKBENCH_COMPLETE": "bash_complete",
            "COMP_WORDS": "\n".join(words),
            "COMP_CWORD": str(len(words) - 1),
        },
        capture_output=True,
        text=True,
        check=False,
    )


def in_bash(line: str) -> list[str]:
    answer = subprocess.run(
        ["bash", "--norc", "-i", "-c", BASH, "bash", line],
        env=environment(),
        capture_output=True,
        text=True,
        check=True,
        stdin=subprocess.DEVNULL,
        start_new_session=True,
    )
    return answer.stdout.split("\n")[:-1]


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("workbench st", ["stop", "status"]),
        ("workbench image ", ["bake", "delete"]),
        ("workbench up --ma", ["--max-nodes", "--max-price"]),
        ("workbench run --com", ["--communicator", "--compress"]),
        ("workbench run --keep-batch ", ["global", "per-rank"]),
        ("workbench run --compress ", ["none", "fp16", "bf16", "int8", "topk", "powersgd"]),
        ("workbench run --communicator h", ["hierarchical"]),
        ("workbench run --param ", ["lr=", "tag="]),
        ("workbench status --cluster ", ["default", "spot"]),
        ("workbench logs ", ["words", "'digits 2'", "digits"]),
        ("workbench stop ", ["words", "'digits 2'"]),
        ("workbench runs words di", ["'digits 2'", "digits"]),
        ("workbench completion ", ["bash", "zsh", "fish"]),
        ("workbench run tra", ["compopt -o default"]),
        ("workbench nonsense --x", []),
    ],
)
def test_bash_offers_what_can_be_typed(filled, line, offered) -> None:
    assert in_bash(line) == offered


def test_zsh_offers_what_can_be_typed(filled, tmp_path) -> None:
    if shutil.which("zsh") is None:
        pytest.skip("there is no zsh on this machine")
    script = """
    autoload -U compinit; compinit -u -d $1/dump; eval "$(workbench completion zsh)"
    compadd() { shift $(( ${@[(i)-a]} )); print -rl -- ${(P)1}; }
    _describe() { print -rl -- ${(P)3}; }
    words=(workbench status --cluster ''); CURRENT=4
    $_comps[workbench]
    """

    answer = subprocess.run(
        ["zsh", "-f", "-c", script, "zsh", tmp_path],
        env=environment(), capture_output=True, text=True, check=True,
    )  # fmt: skip

    assert answer.stdout.split() == ["default", "spot"]


def test_fish_offers_what_can_be_typed(filled, tmp_path) -> None:
    if shutil.which("fish") is None:
        pytest.skip("there is no fish on this machine")
    script = "workbench completion fish | source; complete -C 'workbench run --compress p'"

    answer = subprocess.run(
        ["fish", "--no-config", "-c", script],
        env={**environment(), "HOME": str(tmp_path)}, capture_output=True, text=True, check=True,
    )  # fmt: skip

    assert answer.stdout.split() == ["powersgd"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_is_one_that_its_shell_can_read(shell) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"there is no {shell} on this machine")
    script = subprocess.run(
        [BIN / "workbench", "completion", shell], capture_output=True, text=True, check=True
    )

    read = subprocess.run(
        [shell, "-n"], input=script.stdout, text=True, capture_output=True, check=False
    )

    assert (read.returncode, read.stderr) == (0, "")


def test_a_tab_is_answered_at_once(filled) -> None:
    asked("workbench logs ")  # compiled, and in the page cache

    # What others do on this machine at the time is not its fault.
    assert min(cpu_seconds("workbench logs ") for _ in range(5)) < MOST_SECONDS


def cpu_seconds(line: str) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert asked(line).stdout
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


@pytest.mark.parametrize("broken", ["absent", "garbage", "folder", "other tables", "locked"])
def test_a_broken_store_offers_nothing_and_says_nothing(home, broken) -> None:
    path = home / "store.sqlite3"
    if broken != "absent":
        home.mkdir(mode=0o700)
        {
            "garbage": lambda: path.write_bytes(b"\0garbage" * 999),
            "folder": path.mkdir,
            "other tables": path.touch,
            "locked": lambda: path.write_text("x") and path.chmod(0),
        }[broken]()

    answer = asked("workbench logs --cluster ")

    assert (answer.stdout.strip(), answer.stderr) == ("", "")
    assert sorted(home.parent.glob("home/*")) == ([path] if broken != "absent" else [])


def test_a_store_that_is_being_written_is_read_all_the_same(filled) -> None:
    with Store() as store, store.transaction():
        answer = asked("workbench status --cluster ")

    assert answer.stdout.split() == ["plain,default", "plain,spot"]
