from __future__ import annotations

import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from workbench.store import Store

BROKEN = "for x in range(3)\n    print(x)\n"


@pytest.fixture
def files(home: Path, script: str) -> None:
    """Put scripts and job files into the current folder."""
    Path("broken.py").write_text(BROKEN)
    Path("rank.toml").write_text('script = "train.py"\nrank = 2\n')
    Path("zero.toml").write_text('script = "train.py"\nranks = 0\n')
    Path("absent.toml").write_text('script = "absent.py"\n')
    Path("hosts.txt").write_text("10.0.0.1\n10.0.0.2 slot=2\n")
    Path("empty.txt").write_text("# none yet\n")
    Path("budget.toml").write_text('script = "train.py"\nbudget = 5\n')
    Path("lost.toml").write_text('script = "train.py"\nhost_file = "absent.txt"\n')
    Path("good.toml").write_text('script = "train.py"\n')


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ("rnu train.py", "workbench has no command 'rnu'; did you mean 'run'?"),
        ("train train.py", "workbench has no command 'train'; it knows "),
        ("run", "Missing argument 'SCRIPT'. `workbench run --help` lists what it takes."),
        (
            "run --rnaks 2 train.py",
            "No such option '--rnaks'. (Did you mean one of: '--name', '--ranks'?)",
        ),
        ("run --ranks two train.py", "'two' is not a valid integer. `workbench run --help`"),
        ("run --ranks 0 train.py", "ranks must be at least 1, not 0; try --ranks"),
        ("run --ranks 4000 train.py", "or let ranks share cores (--oversubscribe)."),
        ("run --ranks 5000 train.py", "5000 ranks is more than workbench handles (4096)."),
        ("run --param lr train.py", "'lr' is not a parameter; write --param name=value"),
        ("run --grace soon train.py", "'soon' is not a length of time; write seconds"),
        ("run --wall-clock-limit -1 train.py", "'-1' is not a length of time; write seconds"),
        ("run --name ? train.py", "'?' cannot name a run; use 1 to 80 letters"),
        ("run --cluster ../x train.py", "'../x' cannot name a cluster; use 1 to 40 letters"),
        ("run absent.py", "absent.py cannot be read (No such file or directory)"),
        ("run broken.py", "broken.py, line 1: expected ':'"),
        ("run absent.toml", "absent.py cannot be read (No such file or directory)"),
        ("run none.toml", "The job file none.toml cannot be read (No such file or directory)"),
        ("run rank.toml", "rank.toml, line 2: unknown key 'rank'; did you mean 'ranks'?"),
        ("run zero.toml", "zero.toml, line 2: ranks must be a whole number from 1 to 4096"),
        ("run good.toml --rank 2", "No such option '--rank'. (Did you mean one of: "),
        ("run good.toml --ranks 0", "ranks must be at least 1, not 0"),
        ("run good.toml extra", "Got unexpected extra argument (extra)"),
        ("up 0", "ranks must be at least 1, not 0"),
        ("up two", "'two' is not a valid integer. `workbench up --help`"),
        ("up --cluster a/b", "'a/b' cannot name a cluster; use 1 to 40 letters"),
        ("resize 2", "Cluster 'default' is not up; `workbench up 2` starts it."),
        ("down", "There is no cluster called 'default'; nothing was taken down."),
        ("stop", "No run of cluster 'default' is going on; %dist_runs or `workbench runs`"),
        ("stop absent", "No run is called 'absent' in "),
        ("logs", "Nothing has run on cluster 'default' yet; `workbench run` does."),
        ("logs absent", "No run is called 'absent' in "),
        ("logs --supervisor", "Cluster 'default' has no logs in "),
        ("runs absent", "No run is called 'absent' in "),
        ("runs --limit 0", "0 is not in the range x>=1. `workbench runs --help`"),
        ("runs --plot curve.txt", "'curve.txt' cannot be drawn; use a name that ends in .png"),
        ("runs --plot no/curve.png", "There is no folder no; make it first, or name another."),
        ("status --cluster absent", "There is no cluster called 'absent'; `workbench status`"),
        ("demo --ranks 0", "ranks must be at least 1, not 0"),
        ("up --nodes 2", "--nodes is about nodes; say where they come from: --hosts FILE, --host "),
        ("up --ec2 --rehearse", "A cluster's nodes come from one place; keep one of --hosts "),
        ("up --hosts absent.txt", "The host file absent.txt cannot be read (No such file "),
        ("up --hosts hosts.txt", "hosts.txt: Line 2: 'slot=2' is not known here; write for "),
        ("up --hosts empty.txt", "empty.txt names no host; write one a line, as in 172.31.41.13 "),
        ("up --host 10.0.0", "Line 1: '10.0.0' is not a host's address; write for example "),
        ("up --host a --hosts b", "--hosts and --host both name hosts; write them all into the "),
        ("up --host a --gpus 1", "--gpus is about what is bought, and hosts of your own are not"),
        ("up --host a --nodes 2", "nodes must be from 0 to 1, not 2."),
        ("up --rehearse --nodes 2 --least 3", "At least 3 of 2 nodes were asked for; the least "),
        ("up --rehearse --nodes -1", "--nodes must be a whole number from 0 to 4096, not -1."),
        ("up --rehearse --slots 0", "--slots must be a whole number from 1 to 4096, not 0."),
        ("up --rehearse --budget much", "'much' is not an amount; write a number from 0 up, "),
        ("up --rehearse --max-price -1", "'-1' is not an amount; write a number from 0 up"),
        ("up --rehearse --ttl soon", "'soon' is not a length of time; write seconds"),
        ("up --rehearse --output s3://x", "'s3://x' is not a place in S3; write s3://bucket/"),
        ("up --rehearse --output gs://out", "'gs://out' is neither a folder nor a place in S3; "),
        ("up --rehearse --output /dev/null/x", "The folder /dev/null/x for the output cannot be "),
        ("up --rehearse --data absent", "for the data; name one, or s3://bucket/prefix."),
        ("up --rehearse --data s3:/data", "'s3:/data' is not a place in S3; write s3://bucket/"),
        ("up --rehearse --prepare absent.sh", "The script absent.sh cannot be read (No such "),
        ("up --ec2 --link 0.1", "--link slows the links of pretended nodes, and those of ec2 "),
        ("up --rehearse --image mine", "'mine' is not an image; give its id (ami-…), the "),
        ("up --ec2 --region mars", "'mars' is not a region; write one such as us-east-1."),
        ("up --rehearse --gpus 99", "Of what else would do, nothing has 99 GPUs; ask for less "),
        ("offers", "Say where to look: --ec2, or --rehearse for pretended nodes."),
        ("offers --rehearse --max-price 0.01", "raise --max-price, or ask for fewer or smaller"),
        ("resize", "Say another number of ranks (workbench resize 4), or of --nodes."),
        ("resize --nodes 2", "Cluster 'default' is not up; `workbench up` starts it."),
        ("extend 4h", "There is no cluster called 'default'; start it first."),
        ("image bake", "There is no cluster called 'default'; start it first."),
        ("run budget.toml", "budget.toml, line 2: budget is about nodes; say where they come from"),
        ("run lost.toml", "The host file absent.txt cannot be read (No such file or directory)"),
    ],
)
def test_bad_input_is_one_sentence_and_starts_nothing(workbench, store, arguments, sentence):
    result = workbench(*arguments.split())

    assert sentence in result.stderr
    assert (result.exit_code, result.stdout) == (2, "")
    assert len(result.stderr.strip().splitlines()) == 1
    assert (store.runs(), store.clusters()) == ([], [])


def test_a_name_in_use_is_refused(workbench, actor, script):
    workbench("run", "--background", "--name", "digits", script)

    result = workbench("run", "--background", "--name", "digits", script)

    assert result.exit_code == 2
    assert result.stderr.startswith("A run called 'digits' is queued; wait for it, stop it, or")


def test_a_rank_that_the_run_has_not_is_refused(workbench, actor, script):
    workbench("run", "--background", "--name", "digits", script)

    result = workbench("logs", "--rank", "3", "digits")

    assert result.exit_code == 2
    assert result.stderr.startswith("Run 'digits' has 0 ranks, counted from 0; not 3.")


def test_a_store_of_a_newer_version_is_refused(workbench, store, home):
    with sqlite3.connect(store.path) as connection:
        connection.execute("PRAGMA user_version = 99")
    connection.close()

    result = workbench("status")

    assert result.exit_code == 1
    assert "has version 99, newer than this workbench's" in result.stderr
    assert "upgrade workbench, or set WORKBENCH_HOME" in result.stderr


def test_a_data_directory_that_cannot_be_made_is_told(workbench, tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("WORKBENCH_HOME", str(tmp_path / "file" / "home"))

    result = workbench("up")

    assert result.exit_code == 1
    assert "cannot be created (Not a directory); set WORKBENCH_HOME" in result.stderr


def test_a_file_that_is_no_store_is_told(workbench, home):
    home.mkdir()
    (home / "store.sqlite3").write_text("a letter to my aunt, which is no data base at all")

    result = workbench("status")

    assert result.exit_code == 1
    assert "is not a workbench store; move the file away, or set WORKBENCH_HOME." in result.stderr


def test_a_full_disk_is_told(store, script):
    # The limit on a file's size stands in for the disk: SQLite meets the same refusal to write.
    command = f"ulimit -f 1; exec {sys.executable} -m workbench.cli run --background {script}"

    answer = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)

    assert answer.returncode == 1
    assert str(store.path) in answer.stderr
    assert "full" in answer.stderr
    assert len(answer.stderr.strip().splitlines()) == 1


def test_nothing_of_ours_is_shown_for_a_mistake(workbench, store):
    result = workbench("run", "absent.py")

    assert "Traceback" not in result.output
    assert isinstance(store, Store)
