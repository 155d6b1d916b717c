"""The ``workbench`` profile, for people who use ipyparallel by itself.

``ipp.Cluster(profile="workbench")`` and ``ipcluster start --profile=workbench`` then start one MPI
world with our launchers, which ipyparallel finds by their entry points.
"""

from __future__ import annotations

import os
from pathlib import Path

from IPython.paths import get_ipython_dir

PROFILE = "workbench"
CONFIGURATION = """\
# Written by workbench; a file that is there is never changed.
c = get_config()
c.Cluster.controller_launcher_class = "workbench"
c.Cluster.engine_launcher_class = "workbench"
c.Cluster.delay = 0
"""


def install_profile() -> Path:
    """Make the profile unless there is one, and return its folder.

    A folder that cannot be written is left alone: only plain ipyparallel would have used it.
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
