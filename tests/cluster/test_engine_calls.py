"""What an engine imports for the supervisor, and what its fork server has imported for it."""

from __future__ import annotations

import subprocess
import sys


def printed(program: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def test_a_call_loads_nothing_of_the_supervisors_side() -> None:
    """Each rank of a world that is waited for would spend its time on it."""
    program = "import sys; import workbench.cluster.engine_calls as c; print(*sys.modules)"

    modules = printed(program).split()

    assert "ipyparallel" not in modules
    assert [one for one in modules if one.startswith("workbench.cluster")] == [
        "workbench.cluster",
        "workbench.cluster.engine_calls",
    ]


def test_the_imports_of_a_kernel_leave_a_process_that_may_be_forked() -> None:
    """The debugger is among them; it starts its threads only when it is used."""
    program = """
import sys
from workbench.cluster.engine_calls import import_kernel
from workbench.node.preloading import hazard
import_kernel()
print(repr(hazard()), "ipykernel.debugger" in sys.modules)
"""

    assert printed(program) == "'' True"
