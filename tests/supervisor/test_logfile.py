"""The logs of the supervisor and of its world stay small."""

from __future__ import annotations

import logging
import subprocess
import sys
from pathlib import Path

from workbench.supervisor.housekeeping import LogFile, shorten

WRITE = str(Path(__file__).parent / "programs" / "write_log.py")


def test_a_large_log_is_begun_again_and_the_former_one_kept(tmp_path) -> None:
    log = tmp_path / "supervisor.log"

    with log.open("ab") as file:
        subprocess.run([sys.executable, WRITE, log], stdout=file, stderr=file, check=True)

    assert log.stat().st_size < 1100
    assert (tmp_path / "supervisor.log.1").stat().st_size < 1100
    assert log.read_text().splitlines()[-1] == "printed"


def test_a_warning_about_unsigned_sessions_is_left_out(tmp_path, capsys) -> None:
    handler = LogFile(tmp_path / "supervisor.log")

    for said in ("Message signing is disabled.  This is insecure", "ready"):
        handler.handle(logging.LogRecord("traitlets", logging.WARNING, "", 0, said, (), None))

    assert [line.rpartition(" ")[2] for line in capsys.readouterr().err.splitlines()] == ["ready"]


def test_output_that_is_not_the_log_is_not_redirected(tmp_path) -> None:
    log = tmp_path / "supervisor.log"
    log.touch()

    command = [sys.executable, WRITE, str(log)]
    said = subprocess.run(command, capture_output=True, text=True, check=True)

    assert said.stderr.count("line ") == 50
    assert log.stat().st_size == 0


def test_a_large_log_of_others_keeps_its_end(tmp_path) -> None:
    log = tmp_path / "ipcontroller-1.log"
    log.write_text("".join(f"line {number}\n" for number in range(1000)))

    with log.open("ab", buffering=0) as writer:
        shorten(log, most=1000)
        writer.write(b"after\n")

    lines = log.read_text().splitlines()
    assert (lines[-2:], len(lines) < 60) == (["line 999", "after"], True)
    assert all(line.startswith(("line ", "after")) for line in lines)
