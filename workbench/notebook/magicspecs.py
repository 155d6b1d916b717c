"""The magics: how their lines are parsed, and their help for ``?``; an error is one sentence."""

from __future__ import annotations

import argparse
import difflib
import functools
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn

from workbench.core.fleet.provider import example_options
from workbench.core.option import Option
from workbench.core.options.table import options_of, refuse_other_options
from workbench.errors import InputError, Interrupted
from workbench.notebook.chosen_cluster import chosen_cluster

HELP_COLUMNS = 25
SCRIPT_MAGICS = ("%dist_train", "%dist_sweep")
"""What take a script and its arguments, where the cell magics take neither."""
_COMMANDS = {
    "dist_train": "run",
    "dist_sweep": "sweep",
    "dist_resize": "resize",
    "dist_delete": "delete",
}


@dataclass(frozen=True)
class Magic:
    """The help of a magic, besides its options.

    Args:
        forms: Its usage, one line each, with ``[OPTIONS]``.
        examples: Lines that can be typed.
        text: Additional help.
    """

    forms: tuple[str, ...]
    examples: tuple[str, ...]
    text: str = ""

    def help_text(self, first: str, options: tuple[Option, ...]) -> str:
        """Return the full help, for ``?``.

        Args:
            first: What it does, in a sentence.
        """
        parts = [first, "\n".join(self.forms), self.text]
        parts += ["\n".join(["Options:", *(_line(option) for option in options)])]
        parts += ["\n".join(["Examples:", *(f"  {line}" for line in self.examples)])]
        return "\n\n".join(part for part in parts if part) + "\n"


RENTED, SIMULATED = example_options()
MAGICS = {
    "dist_cluster": Magic(
        ("%dist_cluster [OPTIONS]",),
        ("%dist_cluster", f"%dist_cluster {SIMULATED} 4 --link 0.2 --cluster spot"),
        "The cells below use the cluster that was last named here (default: 'default').",
    ),
    "dist_train": Magic(
        (
            "%%dist_train [OPTIONS]",
            "%dist_train [OPTIONS] script.py [ARGUMENTS]",
            "%dist_train --resume RUN [OPTIONS]",
        ),
        (
            "%%dist_train --ranks 2 --name digits --param lr=0.1",
            "%dist_train --compress bf16 train.py --epoch 3",
        ),
        "The cluster is started if necessary. Words after the script's name are passed to it.\n"
        "With --resume, the cell or the script replaces the run's source, if there is one.",
    ),
    "dist_sweep": Magic(
        (
            "%%dist_sweep [OPTIONS]",
            "%dist_sweep [OPTIONS] script.py [ARGUMENTS]",
            "%dist_sweep --resume SWEEP [OPTIONS]",
        ),
        (
            "%%dist_sweep --minimize validation/main/loss --param units=[50,100,200]",
            "%dist_sweep --trials 40 --sampler tpe --minimize loss --param lr=log(1e-4,1) fit.py",
        ),
        "A trial is a run. --param takes a list, uniform(a,b), log(a,b), int(a,b) or a..b.",
    ),
    "dist_setup": Magic(
        ("%%dist_setup [OPTIONS]", "%dist_setup --clear"),
        ("%%dist_setup --name imports", "%dist_setup --clear"),
    ),
    "dist_status": Magic(
        ("%dist_status [OPTIONS]",),
        ("%dist_status", "%dist_status --cluster spot"),
    ),
    "dist_runs": Magic(
        ("%dist_runs [OPTIONS] [NAMES]...", "%dist_runs --delete [OPTIONS] [NAMES]..."),
        ("%dist_runs slow quick", "%dist_runs --delete --older-than 30d --keep 10 --yes"),
        "A name means its newest run, in this notebook first; NAME~1 means the one before.",
    ),
    "dist_plan": Magic(
        ("%dist_plan [OPTIONS] [RUN]",),
        (f"%dist_plan {SIMULATED} --max-nodes 8", f"%dist_plan {RENTED} --gpus 1 digits"),
    ),
    "dist_stop": Magic(
        ("%dist_stop [OPTIONS] [RUN]",),
        ("%dist_stop", "%dist_stop digits"),
    ),
    "dist_resize": Magic(
        ("%dist_resize [OPTIONS] RANKS", "%dist_resize [OPTIONS] --nodes N"),
        ("%dist_resize 4 --wait", "%dist_resize --nodes 8 --at epoch --yes --cluster spot"),
    ),
    "dist_keep": Magic(
        ("%dist_keep [OPTIONS]",),
        ("%dist_keep", "%dist_keep --cluster spot"),
        "They stay for the idle time of the cluster from now on.",
    ),
    "dist_interrupt": Magic(
        ("%dist_interrupt [OPTIONS] [NODE]",),
        (
            "%dist_interrupt --notice 120 --cluster spot",
            "%dist_interrupt --history p3-trace.csv --speed 20 --span 2h --notice 60",
        ),
    ),
    "dist_bandwidth": Magic(
        ("%dist_bandwidth [OPTIONS]",),
        ("%dist_bandwidth", "%dist_bandwidth --rating 10 --cluster spot"),
        "It takes less than two minutes on eight nodes. Stop ends it between two measurements.",
    ),
    "dist_delete": Magic(
        ("%dist_delete [OPTIONS]",),
        ("%dist_delete", "%dist_delete --wait --cluster spot"),
        "Unfinished runs are stopped. All runs and their results are kept.",
    ),
    "dist_doctor": Magic(
        ("%dist_doctor [OPTIONS]",),
        ("%dist_doctor", "%dist_doctor --cluster spot"),
    ),
}


def magic_options(magic: str) -> tuple[Option, ...]:
    """Return the options of a magic, with or without its percent signs."""
    return options_of(f"%{magic.lstrip('%')}")


class Options(argparse.ArgumentParser):
    """The parser of a magic's line: ``argparse``, which IPython has loaded, unlike click.

    Args:
        magic: The magic's name with its percent signs.
    """

    def __init__(self, magic: str) -> None:
        super().__init__(prog=magic, add_help=False, allow_abbrev=False)
        for option in magic_options(magic):
            self._add(option)
        if magic in SCRIPT_MAGICS:
            self.add_argument("script", nargs=argparse.REMAINDER)

    def read(self, line: str) -> argparse.Namespace:
        """Parse the magic's whole line.

        Raises:
            InputError: Something in it is unknown or not valid.
        """
        try:
            given = shlex.split(line)
        except ValueError as error:
            raise InputError(f"{self.prog}: {error} in {line.strip()!r}.") from error
        command, known = _COMMANDS.get(self.prog.lstrip("%")), self._option_string_actions
        options = (word.partition("=")[0] for word in given if word.startswith("-"))
        if command and any(word not in known for word in options):
            refuse_other_options(command, f"%{self.prog.lstrip('%')}", given)
        result, unknown = self.parse_known_args(given)
        if unknown:
            raise InputError(self._describe_unknown(unknown[0]))
        return result

    def error(self, message: str) -> NoReturn:
        """Raise in place of argparse's exit."""
        raise InputError(f"{self.prog}: {message}.")

    def _add(self, option: Option) -> None:
        default = chosen_cluster() if option.name == "cluster" else option.default
        if option.is_word:
            nargs = "*" if option.many else "?"
            self.add_argument(option.name, nargs=nargs, type=option.read, default=default)
        elif option.is_flag:
            self.add_argument(*option.spellings, dest=option.name, action="store_true")
        else:
            self.add_argument(
                *option.spellings,
                dest=option.name,
                type=option.read,
                action="append" if option.many else "store",
                default=[] if option.many else default,
            )

    def _describe_unknown(self, word: str) -> str:
        known = sorted(self._option_string_actions)
        if not word.startswith("-"):
            return f"{self.prog} does not take {word!r}; its options are {', '.join(known)}."
        option = word.partition("=")[0]
        close = difflib.get_close_matches(option, known, n=1)
        hint = f"did you mean {close[0]}? It has" if close else "it has"
        return f"{self.prog} has no option {option!r}; {hint} {', '.join(known)}."


def read(magic: str, line: str) -> argparse.Namespace:
    """Parse the line of a magic.

    Raises:
        InputError: Something in it is unknown or not valid.
    """
    return Options(magic).read(line)


def explain_options(method: Callable[..., Any]) -> Callable[..., Any]:
    """Extend a magic's docstring by its options, for ``?``, and end it without our frames."""

    @functools.wraps(method)
    def magic(*args: Any) -> Any:
        try:
            return method(*args)
        except Interrupted:
            raise
        except KeyboardInterrupt:
            raise Interrupted(f"%{method.__name__} was interrupted.") from None

    name = method.__name__
    magic.__doc__ = MAGICS[name].help_text((method.__doc__ or "").strip(), magic_options(name))
    return magic


def _line(option: Option) -> str:
    default = f" [default: {option.shown_default}]" if option.shown_default else ""
    return f"  {option.head:<{HELP_COLUMNS}}  {option.help}{default}"
