"""Start the controller of a cluster, or find the one that an earlier supervisor started."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
from pathlib import Path
from typing import Any

import ipyparallel as ipp
import psutil
from ipyparallel.cluster.launcher import NotRunning

from workbench.cluster.launcher import (
    CurveControllerLauncher,
    WorldEngineSetLauncher,
    patience_option,
)
from workbench.errors import ClusterError

_MODULE = "workbench.cluster.controller"
CONNECT_SECONDS = 5.0  # a busy machine accepts later; the kernel accepts for a busy process


class RecordedCluster(ipp.Cluster):
    """A cluster whose file is whole at every moment: this process may be killed at any."""

    def write_cluster_file(self) -> None:
        """Write what another process needs to take it up, unless its folder was removed."""
        path = Path(self.cluster_file)
        part = path.with_suffix(".part")
        with contextlib.suppress(FileNotFoundError):
            part.write_text(json.dumps(self.to_dict()), encoding="utf-8")
            os.replace(part, path)


def find_controller(profile: Path) -> Any:
    """Return the ``ipp.Cluster`` of the controller that is running; None without one."""
    path = _record(profile)
    if not path.exists():
        return None
    with contextlib.suppress(NotRunning, ValueError, OSError, KeyError):
        cluster = RecordedCluster.from_file(str(path), load_profile=False)
        controller = cluster.controller
        if controller is not None and controller.running and _is_one(controller.pid, profile):
            return cluster
    path.unlink(missing_ok=True)
    return None


def is_on_record(profile: Path) -> bool:
    """Return whether a controller was started, and not ended by its supervisor."""
    return _record(profile).exists()


def _record(profile: Path) -> Path:
    return profile / "security" / "cluster-.json"


def _is_one(pid: int, profile: Path) -> bool:
    """Return whether a recorded process is still the controller, and listens.

    After a power cut its number may belong to any process. A port where no process listens refuses
    at once, while the client of a controller would wait for an answer.
    """
    try:
        process = psutil.Process(pid)
        if process.status() == psutil.STATUS_ZOMBIE or _MODULE not in process.cmdline():
            return False
        text = (profile / "security" / "ipcontroller-client.json").read_text(encoding="utf-8")
        found = json.loads(text)
        address = str(found["interface"]).removeprefix("tcp://"), int(found["registration"])
        with socket.create_connection(address, CONNECT_SECONDS):
            return True
    except (psutil.Error, OSError):
        return False


def end_unrecorded(profile: Path) -> None:
    """End controllers of a profile whose supervisor was killed before they were on record."""
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            is_one = _MODULE in process.cmdline()  # or one of its schedulers
            if is_one and process.environ().get("IPP_PROFILE_DIR") == str(profile):
                process.kill()


def start_controller(profile: Path, patience: float) -> Any:
    """Start a controller; return its ``ipp.Cluster``.

    Args:
        profile: The folder of its profile.
        patience: Seconds for which it waits for an engine that is silent.

    Raises:
        ClusterError: It could not be started.
    """
    end_unrecorded(profile)
    for name in ("security", "log", "pid"):
        (profile / name).mkdir(parents=True, exist_ok=True, mode=0o700)
    for stale in (profile / "security").glob("ipcontroller-*.json"):
        stale.unlink()
    cluster = RecordedCluster(
        profile_dir=str(profile),
        cluster_id="",
        controller_launcher_class=CurveControllerLauncher,
        engine_launcher_class=WorldEngineSetLauncher,
        shutdown_atexit=False,
        load_profile=False,
        delay=0,
    )
    cluster.controller_args = [patience_option(patience)]
    try:
        cluster.start_controller_sync()
    except (OSError, RuntimeError) as error:
        raise ClusterError(
            f"The controller did not start ({error})", f"see its log in {profile / 'log'}."
        ) from error
    return cluster


def kill_group(controller: int) -> None:
    """Kill what is left of a controller: its schedulers, too, which do not notice its end."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(controller, signal.SIGKILL)
