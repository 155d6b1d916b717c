"""The ``workbench`` profile and a client, for users of plain ipyparallel.

``ipp.Cluster(profile="workbench")`` and ``ipcluster start --profile=workbench`` then start one MPI
world with our launchers, which ipyparallel finds by their entry points.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from IPython import get_ipython
from IPython.paths import get_ipython_dir

PROFILE = "workbench"
CONFIGURATION = """\
# Written by workbench; an existing file is never changed.
c = get_config()
c.Cluster.controller_launcher_class = "workbench"
c.Cluster.engine_launcher_class = "workbench"
c.Cluster.delay = 0
"""


def install_profile() -> Path:
    """Create the profile unless it exists, and return its folder.

    A folder that cannot be written is ignored: only plain ipyparallel uses it.
    """
    folder = Path(get_ipython_dir()) / f"profile_{PROFILE}"
    configuration = folder / "ipcluster_config.py"
    if not configuration.exists():
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            temporary = folder / f".ipcluster_config.{os.getpid()}"
            temporary.write_text(CONFIGURATION, encoding="utf-8")
            os.replace(temporary, configuration)
        except OSError:
            return folder
    return folder


def connect(connection_file: str, **options: Any) -> Any:
    """Return a client whose ``%%px`` targets all ranks, if IPython is running.

    Args:
        options: Passed on to ``ipyparallel.Client``.
    """
    import ipyparallel as ipp  # a kernel that uses the magics alone does not wait for it

    client = ipp.Client(connection_file, **options)
    if get_ipython() is not None:
        view = client.direct_view("all")
        view.block = True
        view.activate()
    return client
