"""A rented node gets what it lacks of this environment, and nothing that it has."""

from __future__ import annotations

import json
import sys

import pytest

from workbench.cloud import environment
from workbench.cloud.parcel import wheel_name
from workbench.core.session import Completed
from workbench.core.world import Host
from workbench.errors import MachineError
from workbench.supervisor.equipment import equip

DONE = Completed(0, "", "")


class Session:
    """A node whose environment is what a test says."""

    host = Host("10.0.0.4", 1)

    def __init__(self, **changes):
        told = environment.environment()
        self.told = told | changes
        self.ready = self.installed = DONE
        self.sent = {}
        self.scripts = []

    def run(self, command, *, input="", seconds=60.0):
        if command[:2] == ["sh", "-c"]:
            return self.ready
        if command == [sys.executable, "-I", "-"]:
            return Completed(0, f"Welcome!\n{json.dumps(self.told)}\n", "")
        self.scripts.append(input)
        return self.installed

    def put(self, data, path, mode=0o600):
        self.sent[path] = data


def held(**changes):
    """What is installed here, with some of it otherwise; None for what is not there."""
    found = environment.environment()["distributions"] | changes
    return {name: value for name, value in found.items() if value is not None}


def test_a_node_that_has_all_is_left_as_it_is():
    session, said = Session(), []

    assert equip(session, said.append) is False
    assert (session.sent, session.scripts) == ({}, [])
    assert said == ["It is being set up."]


def test_what_is_lacking_is_named_and_installed():
    session, said = Session(distributions=held(numpy=["1.0", ""], psutil=None)), []

    assert equip(session, said.append) is True

    wanted = session.sent[".workbench/wanted.txt"].decode().splitlines()
    assert [line.partition("==")[0] for line in wanted] == ["numpy", "psutil"]
    assert said[-1] == "It gets numpy, psutil."
    assert "-r wanted.txt" in session.scripts[0]
    assert session.sent[".workbench/built-with.txt"] == b"setuptools<81\n"


def test_another_version_of_this_package_is_replaced_by_ours():
    session, said = Session(package="another"), []

    assert equip(session, said.append) is True

    assert session.sent[f".workbench/{wheel_name()}"].startswith(b"PK")
    assert f"--no-deps --force-reinstall {wheel_name()}" in session.scripts[0]
    assert said[-1] == "It gets this version of workbench."


def test_a_node_that_was_not_set_up_says_why():
    session = Session()
    session.ready = Completed(1, "", "E: Unable to locate package\n")

    with pytest.raises(MachineError, match="Unable to locate package"):
        equip(session, lambda _: None)


def test_another_python_is_refused_with_the_remedy():
    with pytest.raises(MachineError, match=r"has Python 3\.9 at .*; bake the image anew"):
        equip(Session(python="3.9"), lambda _: None)


def test_what_cannot_be_installed_is_told():
    session = Session(distributions=held(numpy=None))
    session.installed = Completed(1, "", "no such version")

    with pytest.raises(MachineError, match=r"could not install what is here \(no such version"):
        equip(session, lambda _: None)


def test_no_python_at_all_is_told():
    session = Session()
    session.told = "nothing"

    with pytest.raises(MachineError, match="has no Python at"):
        equip(session, lambda _: None)
