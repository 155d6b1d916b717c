from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import pytest

from workbench.cluster import doctor
from workbench.cluster.mpi_installation import Mpi, MpiKind
from workbench.core.world.world import RankFact


def mpiexec_that(path: Path, script: str) -> Mpi:
    """Give an MPI whose launcher is a shell script."""
    launcher = path / "mpiexec"
    launcher.write_text(f"#!/bin/sh\n{script}\n")
    launcher.chmod(0o755)
    return Mpi(MpiKind.OPENMPI, str(launcher), "5.0.11")


def test_a_launcher_that_hangs_is_ended_at_the_deadline(tmp_path):
    finding = doctor.examine_world(mpiexec_that(tmp_path, "sleep 60 & wait"), 0.3)

    assert (finding.ok, finding.found) == (False, "mpiexec gave no answer within 0.3 s")


def test_a_launcher_that_refuses_is_quoted(tmp_path):
    finding = doctor.examine_world(mpiexec_that(tmp_path, "echo no slots are left >&2; exit 1"))

    assert (finding.ok, finding.found) == (False, "no slots are left")


def test_without_mpi_no_world_is_tried():
    assert doctor.examine_world(None).ok is None


def test_a_folder_that_cannot_be_made_is_reported(tmp_path):
    (tmp_path / "file").touch()

    finding = doctor.examine_directory(tmp_path / "file" / "data")

    assert finding.ok is False
    assert "Not a directory" in finding.found


def test_checking_the_data_directory_leaves_nothing_in_it(tmp_path):
    finding = doctor.examine_directory(tmp_path)

    assert finding.ok
    assert list(tmp_path.iterdir()) == []


def test_a_loopback_address_is_ours():
    assert doctor._is_ours("127.0.0.1")


def test_an_address_of_another_machine_is_not_ours():
    assert not doctor._is_ours("198.51.100.7")


def driver_that(path: Path, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put a driver's tool that is a shell script first on the path."""
    tool = path / "nvidia-smi"
    tool.write_text(f"#!/bin/sh\n{script}\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(path), prepend=os.pathsep)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)


def test_without_a_driver_nothing_is_imported(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(doctor, "_COMPUTE", "raise SystemExit('imported')")

    assert doctor.examine_gpus().ok is None


def test_a_driver_that_fails_is_quoted(tmp_path, monkeypatch):
    driver_that(tmp_path, "echo No devices were found; exit 6", monkeypatch)

    finding = doctor.examine_gpus()

    assert (finding.ok, finding.found) == (False, "nvidia-smi says: No devices were found")


@pytest.mark.parametrize("devices", ["", "-1"])
def test_gpus_that_the_environment_hides_are_not_used(tmp_path, monkeypatch, devices):
    driver_that(tmp_path, "echo Tesla T4", monkeypatch)
    monkeypatch.setattr(doctor, "_COMPUTE", "raise SystemExit('imported')")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", devices)

    finding = doctor.examine_gpus()

    hidden = "1 × Tesla T4; CUDA_VISIBLE_DEVICES hides them from ranks"
    assert (finding.ok, finding.found) == (None, hidden)


@pytest.mark.parametrize(
    ("program", "ok", "found"),
    [
        ("print('CuPy', '14.2.0')", True, "2 × Tesla T4, CuPy 14.2.0"),
        ("raise RuntimeError('no CUDA')", False, "2 × Tesla T4; RuntimeError: no CUDA"),
    ],
    ids=["computes", "fails"],
)
def test_a_gpu_has_to_compute(tmp_path, monkeypatch, program, ok, found):
    driver_that(tmp_path, "for gpu in 1 2; do echo Tesla T4; done", monkeypatch)
    monkeypatch.setattr(doctor, "_COMPUTE", program)

    finding = doctor.examine_gpus()

    assert (finding.ok, finding.found) == (ok, found)


@pytest.mark.mpi
def test_two_real_ranks_form_a_world():
    mpi, found = doctor.examine_mpi()

    world = doctor.examine_world(mpi)

    assert found.ok, found
    assert world.ok, world


@pytest.mark.mpi
def test_all_findings_come_as_json_with_the_ranks_of_stdin(tmp_path):
    ranks = [
        RankFact(1, rank, "elsewhere", 1, rank, versions=(("numpy", f"2.{rank}"),))
        for rank in range(2)
    ]

    options = ["--json", "--ranks", "-", "--data", str(tmp_path)]

    answer = subprocess.run(
        [sys.executable, "-m", "workbench.cluster.doctor", *options],
        input=json.dumps([asdict(rank) for rank in ranks]),
        capture_output=True,
        text=True,
        env=os.environ,
        check=False,
    )

    findings = {finding["check"]: finding for finding in json.loads(answer.stdout)}
    assert answer.returncode == 1
    assert findings["versions"]["found"] == "numpy 2.0, but 2.1 on rank 1"
    assert findings["data directory"]["ok"]
    assert [name for name, finding in findings.items() if finding["ok"] is False] == ["versions"]
