from __future__ import annotations

import json
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
    batch = {"nodeCount": 2, "chainerSettings": {"pythonScriptFilePath": "train.py"}}
    Path("batch.json").write_text(json.dumps({"properties": batch}))
    Path("good.toml").write_text('script = "train.py"\n')


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ("rnu train.py", "workbench has no command 'rnu'; did you mean 'run'?"),
        ("train train.py", "workbench has no command 'train'; it knows "),
        ("run", "Missing argument 'SCRIPT'. See `workbench run --help`."),
        (
            "run --rnaks 2 train.py",
            "No such option '--rnaks'. (Did you mean one of: '--name', '--ranks'?)",
        ),
        ("run --ranks two train.py", "--ranks must be a whole number from 1 to 4096, not 'two'."),
        ("run --ranks 0 train.py", "ranks must be at least 1, not 0; try --ranks"),
        ("run --ranks 4000 train.py", "or let ranks share cores (--oversubscribe)."),
        (
            "run --ranks 5000 train.py",
            "5000 ranks are too many; ask for at most 4096, the limit of workbench.",
        ),
        ("run --param lr train.py", "'lr' is not a parameter; write --param name=value"),
        ("run --grace soon train.py", "'soon' is not a length of time; write seconds"),
        ("run --wall-clock-limit -1 train.py", "'-1' is not a length of time; write seconds"),
        ("run --name ? train.py", "'?' cannot name a run; use 1 to 80 letters"),
        ("run --cluster ../x train.py", "'../x' cannot name a cluster; use 1 to 40 letters"),
        ("run -n 2 --hostfile h train.py", "`-n 2` is `--ranks 2` and `--hostfile h` is "),
        ("run good.toml -np 8", "`-np 8` is `--ranks 8` here."),
        (
            "run batch.json",
            "is a job of Azure Batch AI, which is `workbench run --ranks 2",
        ),
        (
            "run python3 train.py --lr 1",
            "`python3 train.py --lr 1` is `workbench run train.py",
        ),
        ("run -m absent.train", "There is no module 'absent' in "),
        ("resize -n nc6 -t 0", "`-n nc6` is `--cluster nc6` and `-t 0` is `--nodes 0` here."),
        ("delete --yes", "There is no cluster 'default'; nothing was deleted."),
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
        ("up two", "RANKS must be a whole number, not 'two'."),
        ("up --cluster a/b", "'a/b' cannot name a cluster; use 1 to 40 letters"),
        ("resize 2", "Cluster 'default' is not up; start it with `workbench up 2`."),
        ("delete", "There is no cluster 'default'; nothing was deleted."),
        ("stop", "No run of cluster 'default' is active; list earlier runs with `workbench runs`"),
        ("stop absent", "No run is called 'absent' in "),
        ("logs", "Cluster 'default' has no runs yet; start one with `workbench run`."),
        ("logs absent", "No run is called 'absent' in "),
        ("logs --supervisor", "Cluster 'default' has no logs in "),
        ("runs absent", "No run is called 'absent' in "),
        ("runs --limit 0", "--limit must be a whole number of at least 1, not '0'."),
        (
            "runs --plot curve.txt",
            "'curve.txt' is neither PNG nor SVG; use a name that ends in .png",
        ),
        ("runs --plot no/curve.png", "There is no folder no; make it first, or name another."),
        ("status --cluster absent", "There is no cluster 'absent'; list all with "),
        ("demo --ranks 0", "ranks must be at least 1, not 0"),
        ("up --nodes 2", "--nodes is about nodes; name their provider: --hosts FILE, --host "),
        ("up --ec2 --rehearsal", "A cluster has one provider; keep one of EC2 and "),
        ("up --hosts absent.txt", "The host file absent.txt cannot be read (No such file "),
        ("up --hosts hosts.txt", "hosts.txt: Line 2: 'slot=2' is not a known setting; write for "),
        (
            "up --hosts empty.txt",
            "empty.txt names no host; write one per line, such as 172.31.41.13 ",
        ),
        ("up --host 10.0.0", "Line 1: '10.0.0' is not a host address; write for example "),
        ("up --host a --hosts b", "--hosts and --host were both given; write all hosts into the "),
        ("up --host a --gpus 1", "--gpus does not apply to ssh hosts; leave it out."),
        ("up --host a --nodes 2", "nodes must be from 0 to 1, not 2."),
        ("up --rehearsal --nodes 2 --min-nodes 3", "The minimum must be from 1 to 2 nodes, not 3."),
        ("up --rehearsal --nodes -1", "--nodes must be a whole number from 0 to 4096, not -1."),
        (
            "up 2 --rehearsal",
            "2 ranks need nodes; give their number with --nodes, which is 2 with ",
        ),
        ("up 2 --ec2 --slots 2", "2 ranks need nodes; give their number with --nodes, which is "),
        ("up --rehearsal --slots 0", "--slots must be a whole number from 1 to 4096, not 0."),
        ("up --rehearsal --budget much", "'much' is not an amount; write a number of at least 0, "),
        ("up --rehearsal --max-price -1", "'-1' is not an amount; write a number of at least 0"),
        ("up --rehearsal --ttl soon", "'soon' is not a length of time; write seconds"),
        ("up --rehearsal --output s3://x", "'s3://x' is not a place in S3; write s3://bucket/"),
        ("up --rehearsal --output gs://out", "'gs://out' is neither a folder nor a place in S3; "),
        ("up --rehearsal --output /dev/null/x", "The output folder /dev/null/x cannot be "),
        ("up --rehearsal --data absent", "absent; give an existing one, or s3://bucket/prefix."),
        ("up --rehearsal --snapshots s3://x", "'s3://x' is not a place in S3; write s3://bucket/"),
        ("up --rehearsal --snapshots a/b", "--snapshots: 'a/b' is not an absolute path; give one"),
        (
            "up --ec2 --snapshots /a",
            "--snapshots: nodes of EC2 share no folder; give s3://bucket/",
        ),
        ("up --rehearsal --data s3:/data", "'s3:/data' is not a place in S3; write s3://bucket/"),
        ("up --rehearsal --prepare absent.sh", "The script absent.sh cannot be read (No such "),
        ("up --ec2 --link 0.1", "--link does not apply to EC2; leave it out."),
        ("up --rehearsal --lease 5s", "--lease must be from 1 minute to 24 hours, not 5 s."),
        ("up --ec2 --image mine", "'mine' is not an image; give its id (ami-…), one of "),
        ("up --ec2 --region mars", "'mars' is not a region; write one such as us-east-1."),
        (
            "up --rehearsal --gpus 99",
            "No offer that meets the other requirements has 99 GPUs; ease",
        ),
        ("offers", "No provider with offers was chosen; add --ec2, --rehearsal or --slurm."),
        ("offers --rehearsal --max-price 0.01", "raise --max-price, or ask for fewer or smaller"),
        ("resize", "Give one size: a number of ranks or a number of nodes."),
        ("resize --nodes 2", "Cluster 'default' is not up; start it with `workbench up`."),
        ("extend 4h", "There is no cluster 'default'; start it first."),
        ("image bake", "There is no cluster 'default'; start it first."),
        ("run budget.toml", "budget.toml, line 2: budget is about nodes; name their provider"),
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
    assert result.stderr.startswith("A run called 'digits' is queued; wait for it, stop it (`work")


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


def test_a_data_directory_that_cannot_be_made_is_reported(workbench, tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("WORKBENCH_HOME", str(tmp_path / "file" / "home"))

    result = workbench("up")

    assert result.exit_code == 1
    assert "cannot be created (Not a directory); set WORKBENCH_HOME" in result.stderr


def test_a_file_that_is_no_store_is_reported(workbench, home):
    home.mkdir()
    (home / "store.sqlite3").write_text("a letter to my aunt, which is no data base at all")

    result = workbench("status")

    assert result.exit_code == 1
    assert "is not a workbench store; move the file away, or set WORKBENCH_HOME." in result.stderr


def test_a_full_disk_is_reported(store, script):
    # The limit on a file's size replaces the full disk: SQLite meets the same refusal to write.
    # Without -B Python would cache only the first bytes of modules, which then cannot be imported.
    command = f"ulimit -f 1; exec {sys.executable} -B -m workbench.cli run --background {script}"

    answer = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)

    assert answer.returncode == 1
    assert str(store.path) in answer.stderr
    assert "full" in answer.stderr
    assert len(answer.stderr.strip().splitlines()) == 1


def test_nothing_of_ours_is_shown_for_a_mistake(workbench, store):
    result = workbench("run", "absent.py")

    assert "Traceback" not in result.output
    assert isinstance(store, Store)
