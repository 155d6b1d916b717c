"""Parse what follows a magic's name; a mistake is one sentence, never an exit."""

from __future__ import annotations

import argparse
import difflib
import shlex
from collections.abc import Callable
from typing import NoReturn

from workbench.core.cluster import DEFAULT_CLUSTER, check_cluster_name
from workbench.core.job import parameter, seconds
from workbench.core.run import DEFAULT_GRACE
from workbench.errors import InputError
from workbench.view.planbasis import RATE, nbytes_of


class Options(argparse.ArgumentParser):
    """The options of one magic.

    Args:
        magic: Its name with its percent signs.
    """

    def __init__(self, magic: str) -> None:
        super().__init__(prog=magic, add_help=False, allow_abbrev=False)

    def read(self, line: str) -> argparse.Namespace:
        """Parse the magic's whole line.

        Raises:
            InputError: Something in it is not known or will not do.
        """
        return self.read_words(words(line, self.prog))

    def read_words(self, given: list[str]) -> argparse.Namespace:
        """Parse words that were split already."""
        result, unknown = self.parse_known_args(given)
        if unknown:
            raise InputError(self._unknown(unknown[0]))
        return result

    def error(self, message: str) -> NoReturn:
        """Raise in place of argparse's exit."""
        raise InputError(f"{self.prog}: {message}.")

    def takes_value(self, word: str) -> bool:
        """Whether ``word`` is an option whose value is the next word."""
        action = self._option_string_actions.get(word)
        return action is not None and action.nargs != 0

    def _unknown(self, word: str) -> str:
        known = sorted(self._option_string_actions)
        if not word.startswith("-"):
            return f"{self.prog} does not take {word!r}; its options are {', '.join(known)}."
        option = word.partition("=")[0]
        close = difflib.get_close_matches(option, known, n=1)
        hint = f"did you mean {close[0]}? " if close else ""
        return f"{self.prog} has no option {option!r}; {hint}It has {', '.join(known)}."


def words(line: str, magic: str) -> list[str]:
    """Split ``line`` as a shell does.

    Raises:
        InputError: A quotation is left open.
    """
    try:
        return shlex.split(line)
    except ValueError as error:
        raise InputError(f"{magic}: {error} in {line.strip()!r}.") from error


def split_script(options: Options, line: str) -> tuple[list[str], list[str]]:
    """Split the line into our options and the script with its arguments."""
    given = words(line, options.prog)
    position = 0
    while position < len(given) and given[position].startswith("-"):
        position += 2 if options.takes_value(given[position]) else 1
    return given[:position], given[position:]


def train_options(magic: str) -> Options:
    """Return the options that start a run."""
    options = cluster_options(magic)
    options.add_argument("--ranks", type=_whole("--ranks"))
    options.add_argument("--name")
    options.add_argument("--param", dest="parameters", action="append", default=[], type=parameter)
    options.add_argument("--background", action="store_true")
    options.add_argument("--oversubscribe", action="store_true")
    options.add_argument("--communicator")
    options.add_argument("--compress")
    options.add_argument("--double-buffering", action="store_true")
    options.add_argument("--grace", type=seconds, default=DEFAULT_GRACE)
    return options


def setup_options(magic: str) -> Options:
    """Return the options of the set-up magic."""
    options = cluster_options(magic)
    options.add_argument("--name")
    options.add_argument("--clear", action="store_true")
    return options


def runs_options(magic: str) -> Options:
    """Return the options of the listing."""
    options = Options(magic)
    options.add_argument("names", nargs="*")
    options.add_argument("--limit", type=_whole("--limit"), default=20)
    return options


def resize_options(magic: str) -> Options:
    """Return the options of the resize magic."""
    options = cluster_options(magic)
    options.add_argument("ranks", nargs="?", type=_whole("the number of ranks"))
    options.add_argument("--nodes", type=_whole("--nodes"))
    options.add_argument("--oversubscribe", action="store_true")
    options.add_argument("--wait", action="store_true")
    options.add_argument("--yes", action="store_true")
    return options


def panel_options(magic: str) -> Options:
    """Return the options of the magic that shows a cluster."""
    options = cluster_options(magic)
    options.add_argument("--rehearse", type=_whole("--rehearse"), metavar="N")
    options.add_argument("--link", type=_amount("--link"), metavar="GBITS")
    return options


def down_options(magic: str) -> Options:
    """Return the options of the magic that takes a cluster down."""
    options = cluster_options(magic)
    options.add_argument("--wait", action="store_true")
    return options


def plan_options(magic: str) -> Options:
    """Return the options of the plan."""
    options = cluster_options(magic)
    options.add_argument("run", nargs="*")
    for flag in ("--ec2", "--rehearse", "--total-batch", "--plain"):
        options.add_argument(flag, action="store_true")
    for name in ("--region", "--gpu"):
        options.add_argument(name, default="")
    options.add_argument("--type", dest="types", action="append", default=[])
    for name in ("--gpus", "--batch", "--examples"):
        options.add_argument(name, type=_whole(name), default=0)
    options.add_argument("--most", type=_whole("--most"), default=64)
    options.add_argument("--network", type=_amount("--network"), default=0.0)
    options.add_argument("--interruptions", type=_amount("--interruptions"), default=RATE)
    options.add_argument("--step", type=seconds, default=0.0)
    options.add_argument("--gradients", type=nbytes_of, default=0.0)
    return options


def bandwidth_options(magic: str) -> Options:
    """Return the options of the measurement."""
    options = cluster_options(magic)
    options.add_argument("--rating", type=_amount("--rating"))
    return options


def stop_options(magic: str) -> Options:
    """Return the options of the stop magic."""
    options = cluster_options(magic)
    options.add_argument("run", nargs="*")
    return options


def interrupt_options(magic: str) -> Options:
    """Return the options of the magic that takes a pretended node back."""
    options = cluster_options(magic)
    options.add_argument("node", nargs="?", default="")
    options.add_argument("--notice", type=seconds, default=0.0)
    return options


def cluster_options(magic: str) -> Options:
    """Return options that only choose a cluster."""
    options = Options(magic)
    options.add_argument("--cluster", default=DEFAULT_CLUSTER, type=check_cluster_name)
    return options


def _whole(name: str) -> Callable[[str], int]:
    def parse(text: str) -> int:
        try:
            return int(text)
        except ValueError:
            raise InputError(f"{name} must be a whole number, not {text!r}.") from None

    return parse


def _amount(name: str) -> Callable[[str], float]:
    def parse(text: str) -> float:
        try:
            return float(text)
        except ValueError:
            raise InputError(f"{name} must be a number, not {text!r}.") from None

    return parse
