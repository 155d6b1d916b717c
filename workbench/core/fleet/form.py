"""Declare what a form asks about nodes, and make a request of its values.

A provider's form has the common fields of its options, and the fields that it declares itself. A
field whose name is not one of ``FleetRequest`` is a setting of the provider's own. Commands and
job files have it as an option.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, TypeVar

from workbench.core.option import (
    DATA,
    DURATION,
    FLAG,
    FLEET,
    JOB,
    PROVIDER,
    Option,
    amount,
    text,
    whole,
)
from workbench.errors import InputError

HOUR, MINUTE = 3600.0, 60.0
DEFAULT_IDLE = 900.0
"""Seconds, where nodes are rented: a cell is often thought about for ten minutes."""
MOST = 1 << 31
SettingValue = str | int | float | bool | tuple[str, ...]
Settings = tuple[tuple[str, SettingValue], ...]
S = TypeVar("S", bound=SettingValue)
Value = float | str | bool


class FieldKind(StrEnum):
    """How a field is entered."""

    WHOLE = "whole number"
    NUMBER = "number"
    TEXT = "text"
    WORDS = "words, separated by commas"
    PAGE = "several lines"
    SWITCH = "yes or no"


@dataclass(frozen=True)
class FormField:
    """One field of a form.

    Args:
        name: Name of the option, or of a setting of the provider's own.
        hint: What it does, as a short sentence.
        usual: The number that a new form shows.
        example: What is shown where no text was entered.
        is_folded: Whether it is among the settings that are folded at first.
        scale: The option's value for 1 in the form: seconds for hours.
        needs_value: Whether the usual number is sent too; otherwise it leaves the option out.
        check: Raises ``InputError`` if a setting's value is not valid, or ``ValueError`` with what
            completes "must be …".
        typed: The option of commands and job files that gives a setting; None makes one of the
            field.
    """

    name: str
    label: str
    hint: str
    kind: FieldKind = FieldKind.TEXT
    usual: float = 0
    example: str = ""
    is_folded: bool = True
    scale: float = 1
    needs_value: bool = False
    check: Callable[[Any], object] = str
    typed: Option | None = None

    @property
    def option(self) -> Option:
        """The option of commands and job files that gives it."""
        if self.typed:
            return self.typed
        return Option(
            self.name, f"{self.hint}.", _VALUES[self.kind], on=FLEET, section=PROVIDER,
            many=self.kind is WORDS,
            example=self.kind is FieldKind.SWITCH or self.example or self.usual,
        )  # fmt: skip

    def read(self, value: SettingValue, spelling: Callable[[str], str] = str) -> SettingValue:
        """Return the value of a setting; one of the generic option is a text.

        Args:
            spelling: Returns the spelling of an option.

        Raises:
            InputError: It is not valid.
        """
        option = self.option
        if isinstance(value, str) and option.is_flag:
            if value not in ("yes", "no"):
                raise InputError(f"{self.name} must be yes or no, not {value!r}.")
            value = value == "yes"
        elif isinstance(value, str) and option.many:
            value = (*value.replace(",", " ").split(),)
        elif isinstance(value, str):
            found = option.read(value)
            value = found if isinstance(found, int | float) else value
        try:
            self.check(value)
        except ValueError as error:
            raise InputError(f"{spelling(self.name)} must be {error}.") from None
        return value


WHOLE, NUMBER, WORDS = FieldKind.WHOLE, FieldKind.NUMBER, FieldKind.WORDS
_VALUES = {
    FieldKind.TEXT: text("TEXT"),
    FieldKind.PAGE: text("TEXT"),
    WORDS: text("TEXT", "a list of texts"),
    WHOLE: whole(0, MOST),
    NUMBER: replace(amount("N", ""), said="a number from 0 up"),
    FieldKind.SWITCH: FLAG,
}
COMMON = (
    FormField("gpus", "GPUs per node", "At least; 0 = none needed", WHOLE, is_folded=False),
    FormField("gpu_memory", "GPU memory, GiB", "Per GPU, at least", NUMBER, is_folded=False),
    FormField("memory", "Memory, GiB", "Per node, at least", NUMBER, is_folded=False),
    FormField("vcpus", "vCPUs", "Per node, at least", WHOLE, is_folded=False),
    FormField(
        "network", "Network, Gbit/s", "Sustained, per node, at least", NUMBER, is_folded=False
    ),
    FormField(
        "zones", "Zones", "Only these availability zones, separated by commas", WORDS,
        example="any", is_folded=False,
    ),
    FormField(
        "max_price", "Max price, $/h", "For all nodes together; 0 = no limit", NUMBER,
        is_folded=False,
    ),
    FormField(
        "budget", "Budget, $", "Delete the cluster when it is spent; 0 = no limit", NUMBER,
        is_folded=False,
    ),
    FormField(
        "ttl", "Time to live, h", "Delete the cluster after this time; 0 = never", NUMBER, 8.0,
        is_folded=False, scale=HOUR, needs_value=True,
    ),
    FormField(
        "idle", "Idle time, min",
        "Give the nodes back after this time with nothing to do; 0 = never", NUMBER,
        DEFAULT_IDLE / MINUTE, is_folded=False, scale=MINUTE, needs_value=True,
    ),
    FormField(
        "region", "Region", "Where nodes are bought", example="from your configuration",
        is_folded=False,
    ),
    FormField(
        "slots", "Ranks per node", "0 = one per GPU, or one per core without GPUs", WHOLE
    ),
    FormField("data", "Data", "Copied to every node", example="folder or s3://bucket/prefix"),
    FormField(
        "output", "Output", "Where files of runs are copied to",
        example="folder or s3://bucket/prefix",
    ),
    FormField(
        "snapshots", "Snapshots", "Where snapshots are copied to, for when all nodes are lost",
        example="this computer, s3://bucket/prefix, or a shared folder",
    ),
    FormField(
        "across_zones", "Add nodes in other zones too",
        "Only one zone otherwise: traffic between zones is billed on each side", FieldKind.SWITCH,
    ),
    FormField(
        "prepare", "Prepare script", "Runs on each node before it joins", FieldKind.PAGE,
        example="pip install …",
    ),
)  # fmt: skip


# -- of rented nodes

# A laptop may sleep for a while, but an idle night must not be paid for.
LEASE_SECONDS = 1800.0
SHORTEST_LEASE, LONGEST_LEASE = 60.0, 86400.0


def check_lease(seconds: float) -> None:
    """Check the time without contact after which a node ends itself.

    Raises:
        ValueError: It is too short or too long.
    """
    if not SHORTEST_LEASE <= seconds <= LONGEST_LEASE:
        raise ValueError(f"from 1 minute to 24 hours, not {seconds:g} s")


CUDA = FormField(
    "cuda", "Install CuPy and NCCL on nodes", "Even if this computer has neither",
    FieldKind.SWITCH, is_folded=False,
    typed=Option(
        "cuda", "Install CuPy and NCCL on nodes, even if this machine has neither.", FLAG,
        on=("up", JOB), section=DATA, example=True,
    ),
)  # fmt: skip
LEASE = FormField(
    "lease", "Lease, min", "Nodes end if they do not hear from this computer for this long",
    FieldKind.NUMBER, LEASE_SECONDS / 60, scale=60, check=check_lease,
    typed=Option(
        "lease", "Nodes end if they do not hear from this computer for this long.", DURATION,
        on=("up", JOB), section=PROVIDER, shown="30m", example="30m",
    ),
)  # fmt: skip


def option_values(
    fields: tuple[FormField, ...], values: Mapping[str, Value], known: Collection[str]
) -> dict[str, Any]:
    """Return the options that the values of a form give.

    Args:
        values: By the fields' names, as entered.
        known: The options of every request; other fields become ``settings``.
    """
    given = {one.name: value for one in fields if (value := _option(one, values)) is not None}
    own = {name: value for name, value in given.items() if name not in known}
    return {name: value for name, value in given.items() if name in known} | {
        "settings": tuple(own.items())
    }


def form_values(fields: tuple[FormField, ...], wished: Mapping[str, Any]) -> dict[str, Value]:
    """Return what a form shows.

    Args:
        wished: The present options and settings, by name.
    """
    values: dict[str, Value] = {}
    for one in fields:
        value = wished.get(one.name, "")
        if one.kind is WORDS:
            values[one.name] = ", ".join(value) if isinstance(value, tuple) else ""
        elif one.kind in (WHOLE, NUMBER):
            is_open = value in (None, "")
            values[one.name] = one.usual if is_open else float(value) / one.scale
        elif one.kind is FieldKind.SWITCH:
            values[one.name] = bool(value)
        else:
            values[one.name] = value
    return values


def _option(one: FormField, values: Mapping[str, Value]) -> Any:
    """Return the value of an option; None to leave it out."""
    value = values[one.name]
    if one.kind is WORDS:
        return tuple(str(value).replace(",", " ").split()) or None
    if isinstance(value, str):
        return value.strip() or None if one.kind is FieldKind.TEXT else value or None
    if isinstance(value, bool):
        return value or None
    if value == one.usual and not one.needs_value:
        return None
    return value if one.scale == 1 else value * one.scale
