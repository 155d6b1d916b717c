"""Where and how a run was requested: its notebook, the folder's commit, and the variables there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from workbench.core.quote import quote_value
from workbench.core.world.world import FOREIGN, OF_JOBS, THREADS

PYTHON_PATH = "PYTHONPATH"

# Each session, terminal, desktop and Python has its own.
_OF_THE_SESSION = frozenset({
    "_", "COLORTERM", "COLUMNS", "DISPLAY", "EDITOR", "FORCE_COLOR", "HOME", "HOST", "HOSTNAME",
    "IFS", "INFOPATH", "INVOCATION_ID", "JOURNAL_STREAM", "LANG", "LANGUAGE", "LESS", "LESSCLOSE",
    "LESSOPEN", "LINES", "LOGNAME", "LSCOLORS", "LS_COLORS", "MAIL", "MANPAGER", "MANPATH",
    "NO_COLOR", "OLDPWD", "PAGER", "GIT_PAGER", "PATH", "PROMPT_COMMAND", "PS1", "PS2", "PS3",
    "PS4", "PWD", "PYTHONDONTWRITEBYTECODE", "PYTHONHOME", "PYTHONNOUSERSITE", "PYTHONSTARTUP",
    "PYTHONUNBUFFERED", "PYTHONUSERBASE", "SHELL", "SHLVL", "STY", "TERM", "USER", "USERNAME",
    "VISUAL", "WAYLAND_DISPLAY", "WINDOWID", "XAUTHORITY",
})  # fmt: skip
_OF_SESSIONS = (
    "ALACRITTY_", "BASH", "CHROME_", "CLICOLOR", "CONDA", "COVERAGE_", "COV_", "DBUS_", "DIRENV_",
    "ELECTRON_", "FZF_", "GDK_", "GNOME_", "GPG_", "GTK_", "HIST", "IPYTHON", "ITERM_", "JPY_",
    "JUPYTER", "KDE_", "KERNEL_", "KITTY_", "KONSOLE_", "LC_", "MAKE", "MEMORY_PRESSURE_", "NPM_",
    "NVM_", "PYDEVD_", "PYENV", "PYTEST_", "QT_", "SSH_", "STARSHIP_", "SUDO_", "SYSTEMD_",
    "TERM_", "TMUX", "VIRTUAL_ENV", "VSCODE_", "VTE_", "WEZTERM_", "WSL", "WT_", "XDG_", "ZSH",
    "_CE_", "_CONDA",
)  # fmt: skip
# They say which rank of a world, and of a job, a process is; and our own.
_OF_THE_WORLD = frozenset({
    "GROUP_RANK", "GROUP_WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR",
    "MASTER_PORT", "NODE_RANK", "RANK", "ROLE_NAME", "ROLE_RANK", "ROLE_WORLD_SIZE", "WORLD_SIZE",
})  # fmt: skip
_OF_WORLDS = (
    *OF_JOBS, "HOROVOD_CROSS_", "HOROVOD_LOCAL_", "HOROVOD_RANK", "HOROVOD_SIZE", "HYDRA_", "IPP_",
    "I_MPI_", "MPICH_", "MPIEXEC_", "MPIR_", "MV2_", "OMPI_", "OPAL_", "TORCHELASTIC_",
    "WORKBENCH_",
)  # fmt: skip
# What a process reads when it starts, so that ranks that are there would not see a change.
_AT_START = (
    "FI_", "GLIBC_TUNABLES", "LD_", "MALLOC_", "MPI4PY_", "OMPI_MCA_", "PYTHON", "UCX_",
)  # fmt: skip
_READ_LATER = frozenset({PYTHON_PATH, "PYTHONBREAKPOINT"})


@dataclass(frozen=True)
class Origin:
    """Where and how a run was requested.

    Args:
        notebook: The notebook's absolute path; empty for a shell's.
        commit: The commit that the run's folder was at; empty without git.
        environment: Variables of the caller that differ from those of the cluster's ranks; None
            for one that the caller has not.
        remarks: Sentences on variables that differ and cannot travel.
        module: The dotted name of a script that is run as ``python -m`` does; empty for another.
    """

    notebook: str = ""
    commit: str = ""
    environment: tuple[tuple[str, str | None], ...] = ()
    remarks: tuple[str, ...] = ()
    module: str = ""


NOWHERE = Origin()
"""That of a run about which nothing is known."""


@dataclass(frozen=True)
class Variables:
    """The variables that matter when a run is requested.

    Args:
        here: Those of the caller.
        cluster: Those that the cluster was started with; None if it starts with the caller's.
        ranks: Those of its ranks on this machine; empty if there are none.
        is_elsewhere: Whether its ranks are on other machines.
    """

    here: Mapping[str, str]
    cluster: Mapping[str, str] | None = None
    ranks: Mapping[str, str] = field(default_factory=dict)
    is_elsewhere: bool = False

    def travelling(self) -> tuple[tuple[tuple[str, str | None], ...], tuple[str, ...]]:
        """Return what a run takes with it, and sentences on what differs and cannot travel.

        Only what differs travels; what belongs to a session or to the world never does.
        """
        started = self.here if self.cluster is None else self.cluster
        known = {**started, **self.ranks}
        taken, remarks = dict[str, str | None](), list[str]()
        for name, value in sorted(self.here.items()):
            if _stays(name, value):
                continue
            if _is_read_at_start(name):
                # Launchers add to these on the ranks, so what counts is the cluster's start.
                if started.get(name) != value:
                    remarks.append(_late(name, value, started.get(name)))
            elif known.get(name) == value and (name not in THREADS or self.ranks):
                continue  # before there are ranks, the caller's number of threads is not theirs
            elif self.is_elsewhere and _is_of_this_machine(name, value):
                remarks.append(
                    f"{name} belongs to this machine and stays here; ranks elsewhere get their "
                    "own from a job file's environment."
                )
            else:
                taken[name] = value
        gone = {*started} - {*THREADS} | ({*THREADS} if taken.keys() & {*THREADS} else set())
        for name in sorted(gone - self.here.keys()):
            if not _stays(name, "") and not _is_read_at_start(name):
                taken[name] = None
        return (*taken.items(),), tuple(remarks)


def _stays(name: str, value: str) -> bool:
    """Whether a variable never travels."""
    if name == "MPLBACKEND":
        return value.startswith("module://")  # a kernel's own
    if name.startswith("OMPI_MCA_"):
        return False
    return (
        name in _OF_THE_SESSION
        or name in _OF_THE_WORLD
        or name in FOREIGN
        or name.upper().startswith((*_OF_SESSIONS, *_OF_WORLDS))
    )


def _is_read_at_start(name: str) -> bool:
    return name.startswith(_AT_START) and name not in _READ_LATER


def _is_of_this_machine(name: str, value: str) -> bool:
    """Whether a value names a place here; credentials of AWS are this user's, too."""
    parts = value.split(":")
    return name.startswith("AWS_") or any(part.startswith(("/", "~", "./")) for part in parts)


def _late(name: str, value: str, before: str | None) -> str:
    was = "not set" if before is None else quote_value(before)
    return (
        f"{name} is {quote_value(value)} here and {was} on the ranks, which read it when they "
        "start; delete the cluster first to change it."
    )
