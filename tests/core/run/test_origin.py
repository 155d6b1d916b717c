"""What of the caller's environment travels with a run, and what stays."""

from __future__ import annotations

import pytest

from workbench.core.run.origin import Variables

START = {"HOME": "/home/me", "PATH": "/bin", "MY_FLAG": "7", "OLD": "1", "PYTHONHASHSEED": "0"}
RANKS = {**START, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "LD_LIBRARY_PATH": "/mpi"}


def taken(here: dict[str, str], **more: object) -> dict[str, str | None]:
    values = {"cluster": START, "ranks": RANKS, **more}
    return dict(Variables({**START, **here}, **values).travelling()[0])


def test_only_what_differs_travels() -> None:
    assert taken({}) == {}
    assert taken({"MY_FLAG": "8", "WANDB_MODE": "offline", "CUDA_VISIBLE_DEVICES": "1"}) == {
        "CUDA_VISIBLE_DEVICES": "1",
        "MY_FLAG": "8",
        "WANDB_MODE": "offline",
    }


def test_a_variable_that_the_caller_has_not_is_not_set_either() -> None:
    here = {name: value for name, value in START.items() if name != "OLD"}

    assert Variables(here, START, RANKS).travelling() == ((("OLD", None),), ())


def test_a_cluster_that_starts_with_the_caller_needs_nothing() -> None:
    assert Variables(START).travelling() == ((), ())


def test_ranks_of_an_earlier_supervisor_are_what_counts() -> None:
    here = {**START, "MY_FLAG": "8"}

    assert dict(Variables(here, here, RANKS).travelling()[0]) == {"MY_FLAG": "8"}
    assert dict(Variables(here, None, RANKS).travelling()[0]) == {"MY_FLAG": "8"}


@pytest.mark.parametrize("more", [{}, {"ranks": {}}, {"ranks": {}, "cluster": None}])
def test_a_number_of_threads_that_is_given_wins_over_a_rank_s_share(more) -> None:
    found = taken({"OMP_NUM_THREADS": "2"}, **more)

    assert found.pop("OMP_NUM_THREADS") == "2"
    assert set(found.values()) == {None}  # the shares of the other libraries
    assert taken({"OMP_NUM_THREADS": "1"}) == {}


@pytest.mark.parametrize(
    "name",
    [
        "PATH", "PWD", "SHLVL", "DISPLAY", "SSH_AUTH_SOCK", "XDG_RUNTIME_DIR", "VIRTUAL_ENV",
        "CONDA_PREFIX", "JPY_SESSION_NAME", "VSCODE_PID", "LC_ALL", "PYTHONUNBUFFERED",
        "SLURM_JOB_ID", "PMI_RANK", "PMIX_NAMESPACE", "OMPI_COMM_WORLD_RANK", "RANK",
        "MASTER_PORT", "WORKBENCH_HOME", "IPP_CONNECTION_INFO", "npm_config_cache",
    ],
)  # fmt: skip
def test_what_belongs_to_a_session_or_a_world_stays(name) -> None:
    assert Variables({**START, name: "x"}, START, RANKS).travelling() == ((), ())
    assert Variables(START, {**START, name: "x"}, RANKS).travelling() == ((), ())


def test_a_kernel_s_own_backend_stays_and_another_travels() -> None:
    assert taken({"MPLBACKEND": "module://matplotlib_inline.backend_inline"}) == {}
    assert taken({"MPLBACKEND": "svg"}) == {"MPLBACKEND": "svg"}


@pytest.mark.parametrize("name", ["PYTHONHASHSEED", "LD_PRELOAD", "OMPI_MCA_btl", "UCX_TLS"])
def test_what_is_read_at_a_start_is_said_to_be_late(name) -> None:
    found, remarks = Variables({**START, name: "9"}, START, RANKS).travelling()

    assert found == ()
    was = "'0'" if name in START else "not set"
    assert remarks == (
        f"{name} is '9' here and {was} on the ranks, which read it when they start; "
        "delete the cluster first to change it.",
    )


def test_what_launchers_add_on_ranks_is_no_difference() -> None:
    started = {**START, "LD_LIBRARY_PATH": "/own"}

    assert Variables(started, started, RANKS).travelling() == ((), ())


def test_places_of_this_machine_do_not_travel_to_others() -> None:
    here = {**START, "DATA": "/data/here", "AWS_PROFILE": "me", "MODE": "9"}

    found, remarks = Variables(here, START, is_elsewhere=True).travelling()

    assert found == (("MODE", "9"),)
    assert [remark.split()[0] for remark in remarks] == ["AWS_PROFILE", "DATA"]
    assert dict(Variables(here, START, RANKS).travelling()[0])["DATA"] == "/data/here"
