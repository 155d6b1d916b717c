"""Parse what follows a magic's name; a mistake is one sentence, never an exit."""

from __future__ import annotations

import argparse
import ast
import difflib
import keyword
import shlex
from collections.abc import Callable
from typing import Any, NoReturn, TypeVar

from workbench.core.cluster import DEFAULT_CLUSTER
from workbench.core.run import DEFAULT_GRACE
from workbench.errors import InputError

T = TypeVar("T")


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
    options.add_argument("--ranks", type=_number(int, "--ranks", "a whole number"))
    options.add_argument("--name")
    options.add_argument("--param", dest="parameters", action="append", default=[], type=parameter)
    options.add_argument("--background", action="store_true")
    options.add_argument("--oversubscribe", action="store_true")
    options.add_argument(
        "--grace", type=_number(float, "--grace", "a number of seconds"), default=DEFAULT_GRACE
    )
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
    options.add_argument("--limit", type=_number(int, "--limit", "a whole number"), default=20)
    return options


def resize_options(magic: str) -> Options:
    """Return the options of the resize magic."""
    options = cluster_options(magic)
    options.add_argument("ranks", type=_number(int, "the number of ranks", "a whole number"))
    options.add_argument("--oversubscribe", action="store_true")
    return options


def stop_options(magic: str) -> Options:
    """Return the options of the stop magic."""
    options = cluster_options(magic)
    options.add_argument("run", nargs="*")
    return options


def cluster_options(magic: str) -> Options:
    """Return options that only choose a cluster."""
    options = Options(magic)
    options.add_argument("--cluster", default=DEFAULT_CLUSTER)
    return options


def parameter(text: str) -> tuple[str, object]:
    """Return name and value of ``name=value``; the value is a literal where it reads as one.

    Raises:
        InputError: It is not of this form, or the name cannot be a variable.
    """
    name, separator, value = text.partition("=")
    if not separator or not name.isidentifier() or keyword.iskeyword(name):
        raise InputError(f"--param {text!r} is not of the form name=value, as in --param lr=0.1.")
    return name, _literal(value)


def _literal(text: str) -> Any:
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return text
    # The store keeps parameters as JSON; what JSON would change stays text.
    return value if isinstance(value, bool | int | float | str | None) else _container(value, text)


def _container(value: object, text: str) -> object:
    if isinstance(value, list):
        return value
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return value
    return text


def _number(kind: Callable[[str], T], option: str, wanted: str) -> Callable[[str], T]:
    def parse(text: str) -> T:
        try:
            return kind(text)
        except ValueError:
            raise InputError(f"{option} must be {wanted}, not {text!r}.") from None

    return parse
