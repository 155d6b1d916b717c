"""What others' launchers are called is answered with the same in our words."""

from __future__ import annotations

import json
import shlex

import pytest

from workbench.core.run.other_launchers import (
    batch_ai_here,
    is_launcher,
    options_here,
    same_here,
)

OURS = {"--ranks", "--name", "--cluster", "--param"}


@pytest.mark.parametrize(
    ("typed", "says"),
    [
        ("-n 2 train.py", "`-n 2` is `--ranks 2` here."),
        ("-np 8 train.py", "`-np 8` is `--ranks 8` here."),
        ("-n2 train.py", "`-n2` is `--ranks 2` here."),
        ("--name a -np 8 --hostfile h train.py",
         "`-np 8` is `--ranks 8` and `--hostfile h` is `workbench up --hosts h` before it here."),
        ("--nproc_per_node=4 train.py", "`--nproc_per_node=4` is `--ranks 4` here."),
        ("--nproc-per-node gpu train.py", "`--nproc-per-node gpu` is the default here."),
        ("--nnodes 2 --nproc-per-node 4 --master_port 29500 train.py",
         "`--nnodes 2 --nproc-per-node 4` is `--ranks 8` and `--master_port 29500` is not needed "
         "here."),
        ("--nnodes=2 train.py", "`--nnodes=2` is `workbench up --nodes 2` here."),
        ("-H a:2,b train.py",
         "`-H a:2,b` is `workbench up --host 'a slots=2' --host b` before it here."),
        ("--max_restarts 3 train.py", "`--max_restarts 3` is `--retries 3` here."),
        ("-x FLAG train.py",
         "`-x FLAG` is not needed, as variables of this shell travel, here."),
        ("--ranks 2 train.py -n 4", ""),
        ("--rank 2 train.py", ""),
    ],
)  # fmt: skip
def test_an_option_of_another_launcher_is_said_in_ours(typed, says) -> None:
    assert options_here("run", shlex.split(typed), OURS) == says


@pytest.mark.parametrize(
    ("command", "typed", "says"),
    [
        ("resize", "-n nc6 -t 0", "`-n nc6` is `--cluster nc6` and `-t 0` is `--nodes 0` here."),
        ("resize", "--target 4", "`--target 4` is `--nodes 4` here."),
        ("resize", "--min 0 --max 4",
         "`--min 0` is `workbench up --min-nodes 0` and `--max 4` is `--nodes 4` here."),
        ("resize", "-n 4", "`-n 4` is `workbench resize 4` here."),
        ("up", "-n nc6 --vm-size p3", "`-n nc6` is `--cluster nc6` and `--vm-size p3` is "
         "`--type p3` here."),
        ("delete", "--name nc6", "`--name nc6` is `--cluster nc6` here."),
        ("resize", "4 --nodse 2", ""),
    ],
)  # fmt: skip
def test_an_option_of_batch_ai_is_said_in_ours(command, typed, says) -> None:
    assert options_here(command, shlex.split(typed), {"--cluster", "--nodes"}) == says


@pytest.mark.parametrize(
    ("typed", "same"),
    [
        ("python3 train.py --epoch 3", "workbench run train.py --epoch 3"),
        ("/usr/bin/python3.11 -u -X dev train.py", "workbench run train.py"),
        ("python -m pkg.train --lr 1", "workbench run -m pkg.train --lr 1"),
        ("mpiexec -n 2 python train.py", "workbench run --ranks 2 train.py"),
        ("mpirun -np 4 --hostfile h --allow-run-as-root python3 -m mpi4py train.py -n 3",
         "workbench up --hosts h && workbench run --ranks 4 train.py -n 3"),
        ("torchrun --standalone --nproc_per_node=4 train.py", "workbench run --ranks 4 train.py"),
        ("torchrun --nnodes 2 --nproc_per_node 4 -m pkg.train",
         "workbench run --ranks 8 -m pkg.train"),
        ("torchrun --nnodes 1:4 --nproc_per_node gpu train.py", "workbench run train.py"),
        ("python -m torch.distributed.launch --nproc_per_node 2 train.py",
         "workbench run --ranks 2 train.py"),
        ("accelerate launch --num_processes 2 train.py", "workbench run --ranks 2 train.py"),
        ("srun -n 4 python train.py", "workbench run --ranks 4 train.py"),
        ("horovodrun -np 2 -H a:1,b:1 python train.py",
         "workbench up --host 'a slots=1' --host 'b slots=1' && workbench run --ranks 2 train.py"),
        ("uv run train.py", "workbench run train.py"),
    ],
)  # fmt: skip
def test_a_line_of_another_launcher_is_said_in_ours(typed, same) -> None:
    words = shlex.split(typed)

    assert is_launcher(words[0])
    assert same_here(words) == f"`{typed}` is `{same}` here."


def test_a_launcher_without_a_script_is_left_out() -> None:
    assert same_here(["python3"]) == (
        "Leave out `python3` and name a script, as in `workbench run train.py`."
    )


@pytest.mark.parametrize("script", ["train.py", "python.py", "run", "mpiexec.py", "job.toml"])
def test_a_script_is_no_launcher(script) -> None:
    assert not is_launcher(script)


def test_a_job_of_batch_ai_is_said_in_ours() -> None:
    job = {
        "$schema": "https://raw.githubusercontent.com/Azure/BatchAI/…/job.json",
        "properties": {
            "nodeCount": 2,
            "chainerSettings": {
                "pythonScriptFilePath": "$AZ_BATCHAI_INPUT_SCRIPTS/train_mnist.py",
                "commandLineArgs": "-g --out $AZ_BATCHAI_OUTPUT_MODEL",
                "processCount": 4,
            },
        },
    }

    assert batch_ai_here(job, "job.json") == (
        "job.json is a job of Azure Batch AI, which is `workbench run --ranks 4 train_mnist.py -g "
        "--out '$AZ_BATCHAI_OUTPUT_MODEL'` here."
    )
    line = {"nodeCount": 2, "customToolkitSettings": {"commandLine": "mpirun -n 8 python a.py"}}
    assert "`workbench run --ranks 8 a.py`" in batch_ai_here(line, "job.json")
    assert batch_ai_here(json.loads('{"script": "train.py", "nodes": 2}'), "job.json") == ""
