"""Connect a plain ipyparallel client to a workbench cluster, for ``%%px`` and your own views."""

from __future__ import annotations

from typing import Any

import ipyparallel as ipp
from IPython import get_ipython


def connect(connection_file: str, **options: Any) -> ipp.Client:
    """Return a client whose ``%%px`` targets all ranks, if IPython is running.

    Args:
        options: Passed on to ``ipyparallel.Client``.
    """
    client = ipp.Client(connection_file, **options)
    if get_ipython() is not None:
        view = client.direct_view("all")
        view.block = True
        view.activate()
    return client
