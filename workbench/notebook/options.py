"""Parse and document the options of magics; an error is one sentence, never an exit."""

from __future__ import annotations

import argparse
import difflib
import shlex
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NoReturn

from workbench.core.run.other_launchers import options_here
from workbench.errors import InputError
from workbench.view.option_help import HELP

MANY = "*"
OPTIONAL = "?"
HELP_COLUMNS = 24
_COMMANDS = {"dist_train": "run", "dist_resize": "resize", "dist_delete": "delete"}


@dataclass(frozen=True)
class MagicOption:
    """An option or argument of a magic, for its parser, its help and Tab completion.

    Args:
        name: ``--ranks``; without dashes it is a positional argument.
        value: The placeholder of the value in the help; empty for a flag.
        what: One line of help (default: the shell's for the same option).
        read: Returns the value or raises InputError.
        default: The value, or a function that returns it at parse time.
        shown: The default as shown in the help, in place of ``default``.
        many: Whether it is repeatable.
        dest: The attribute of the value, if it is not named like the option.
        offers: The kind of Tab completion, by a name of ``completion``.
    """

    name: str
    value: str = ""
    what: str = ""
    read: Callable[[str], object] = str
    default: object = None
    shown: str = ""
    many: bool = False
    dest: str = ""
    offers: str = ""

    @property
    def is_word(self) -> bool:
        """Whether it is positional."""
        return not self.name.startswith("-")

    @property
    def line(self) -> str:
        """Its line in the help."""
        head = self.value if self.is_word else f"{self.name} {self.value}".strip()
        shown = self.shown or (str(self.default) if self.default not in (None, 0, 0.0, "") else "")
        default = f" [default: {shown}]" if shown else ""
        return f"  {head:<{HELP_COLUMNS}}  {self.what or HELP[self.name]}{default}"


@dataclass(frozen=True)
class Magic:
    """The options of a magic, with its help.

    Args:
        forms: Its usage, one line each, with ``[OPTIONS]``.
        text: Additional help.
        examples: Lines that can be typed.
    """

    forms: tuple[str, ...]
    options: tuple[MagicOption, ...]
    examples: tuple[str, ...]
    text: str = ""

    def explained(self, first: str) -> str:
        """Return the full help, for ``?``.

        Args:
            first: What it does, in a sentence.
        """
        parts = [first, "\n".join(self.forms), self.text]
        parts += ["\n".join(["Options:", *(option.line for option in self.options)])]
        parts += ["\n".join(["Examples:", *(f"  {line}" for line in self.examples)])]
        return "\n\n".join(part for part in parts if part) + "\n"


class Options(argparse.ArgumentParser):
    """The options of one magic.

    Args:
        magic: Its name with its percent signs.
        options: The options.
    """

    def __init__(self, magic: str, options: Iterable[MagicOption]) -> None:
        super().__init__(prog=magic, add_help=False, allow_abbrev=False)
        for option in options:
            self._add(option)

    def read(self, line: str) -> argparse.Namespace:
        """Parse the magic's whole line.

        Raises:
            InputError: Something in it is unknown or not valid.
        """
        return self.read_words(words(line, self.prog))

    def read_words(self, given: list[str]) -> argparse.Namespace:
        """Parse a list of words."""
        self.refuse_others(given)
        result, unknown = self.parse_known_args(given)
        if unknown:
            raise InputError(self._unknown(unknown[0]))
        return result

    def error(self, message: str) -> NoReturn:
        """Raise in place of argparse's exit."""
        raise InputError(f"{self.prog}: {message}.")

    @property
    def names(self) -> set[str]:
        """The names of its options."""
        return {*self._option_string_actions}

    def refuse_others(self, given: list[str]) -> None:
        """Say what options of other launchers are here, if there are any.

        Raises:
            InputError: There are.
        """
        actions = self._option_string_actions
        if any(word.startswith("-") and word.partition("=")[0] not in actions for word in given):
            valued = {name for name in actions if self.takes_value(name)}
            command = _COMMANDS.get(self.prog.lstrip("%"), "")
            if command and (said := options_here(command, given, valued)):
                raise InputError(said)

    def takes_value(self, word: str) -> bool:
        """Whether ``word`` is an option whose value is the next word."""
        action = self._option_string_actions.get(word)
        return action is not None and action.nargs != 0

    def _add(self, option: MagicOption) -> None:
        if option.is_word:
            nargs = MANY if option.many else OPTIONAL
            self.add_argument(option.name, nargs=nargs, type=option.read, default=option.default)
            return
        dest = option.dest or option.name.strip("-").replace("-", "_")
        default = option.default() if callable(option.default) else option.default
        if not option.value:
            self.add_argument(option.name, dest=dest, action="store_true")
        elif option.many:
            self.add_argument(option.name, dest=dest, action="append", default=[], type=option.read)
        else:
            self.add_argument(option.name, dest=dest, type=option.read, default=default)

    def _unknown(self, word: str) -> str:
        known = sorted(self._option_string_actions)
        if not word.startswith("-"):
            return f"{self.prog} does not take {word!r}; its options are {', '.join(known)}."
        option = word.partition("=")[0]
        close = difflib.get_close_matches(option, known, n=1)
        hint = f"did you mean {close[0]}? It has" if close else "it has"
        return f"{self.prog} has no option {option!r}; {hint} {', '.join(known)}."


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
    options.refuse_others(given)
    position = 0
    while position < len(given) and given[position].startswith("-"):
        position += 2 if options.takes_value(given[position]) else 1
    return given[:position], given[position:]


def whole(name: str) -> Callable[[str], int]:
    """Return a parser of whole numbers.

    Args:
        name: The name in the message.
    """

    def parse(text: str) -> int:
        try:
            return int(text)
        except ValueError:
            raise InputError(f"{name} must be a whole number, not {text!r}.") from None

    return parse


def amount(name: str) -> Callable[[str], float]:
    """Return a parser of numbers.

    Args:
        name: The name in the message.
    """

    def parse(text: str) -> float:
        try:
            return float(text)
        except ValueError:
            raise InputError(f"{name} must be a number, not {text!r}.") from None

    return parse
