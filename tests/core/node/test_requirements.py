from __future__ import annotations

import json
from dataclasses import replace

import pytest

from workbench.core.node.requirements import (
    Environment,
    at_home,
    format_names,
    lacking,
    lacking_of,
    notes,
    read_environment,
    remaining,
    too_new,
    torch_build,
)
from workbench.namesake import DISTRIBUTION

GIT = json.dumps({"url": "https://h/r", "vcs_info": {"vcs": "git", "commit_id": "abc"}})
FOLDER = json.dumps({"url": "file:///home/you/mine", "dir_info": {"editable": True}})
FILE = json.dumps({"url": "https://h/w-1-py3-none-any.whl", "archive_info": {}})


def environment(package="p", **held):
    pairs = {k: v if isinstance(v, tuple) else (v, "") for k, v in held.items()}
    return Environment("3.11", package, pairs)


def test_what_is_the_same_is_not_asked_for():
    assert lacking(environment(numpy="2.1"), environment(numpy="2.1", more="1")) == ()


def test_what_is_not_there_or_older_is_asked_for_as_it_is_here():
    here = environment(numpy="2.1", Chainer="7.8.1", scipy="1.0")

    assert lacking(here, environment(numpy="2.0", scipy="1.0")) == ("Chainer==7.8.1", "numpy==2.1")


def test_names_are_one_however_they_are_spelt():
    assert lacking(environment(Foo_Bar="1"), environment(**{"foo.bar": "1"})) == ()


def test_a_build_for_one_sort_of_processor_is_as_good_as_another():
    assert lacking(environment(torch="2.13.0+cpu"), environment()) == ("torch==2.13.0",)
    assert lacking(environment(torch="2.13.0+cpu"), environment(torch="2.13.0+cu126")) == ()


def test_where_it_came_from_is_asked_too_unless_that_is_a_folder_here():
    here = environment(
        a=("1", GIT), b=("1", FOLDER), c=("1", FILE), **{DISTRIBUTION: ("1", FOLDER)}
    )

    assert lacking(here, environment()) == (
        "a @ git+https://h/r@abc",
        "c @ https://h/w-1-py3-none-any.whl",
    )


def test_what_does_not_take_the_python_there_is_asked_for_in_any_version():
    held = {"numpy": ("2.1", ""), "soupsieve": ("4.1.1", "")}
    pythons = {"numpy": ">=3.11", "soupsieve": ">=3.11.5", "odd": "a word"}
    here = Environment("3.11", "p", held, "3.11.7", pythons)
    bare = Environment("3.11", "", {}, "3.11.2")
    older = Environment("3.11", "p", held | {"soupsieve": ("2.10", "")}, "3.11.2")

    assert too_new(here, bare) == ("soupsieve",)
    assert lacking(here, bare) == ("numpy==2.1", "soupsieve")
    assert lacking(here, older) == ()
    assert lacking(here, Environment("3.11", "", {}, "3.11.7"))[1] == "soupsieve==4.1.1"


def test_an_environments_own_tools_do_not_matter():
    assert (
        lacking(environment(pip="25", setuptools="80", **{DISTRIBUTION: "1"}), environment()) == ()
    )


def test_what_a_login_shell_says_first_is_passed_over():
    reported = {"python": "3.11", "package": "p", "distributions": {"numpy": ["2.1", ""]}}

    assert read_environment(f"Welcome!\n{json.dumps(reported)}\n") == environment(numpy="2.1")
    for nothing in ("", "Welcome!", "[]", '{"python": "3"}'):
        with pytest.raises(ValueError):  # noqa: PT011 - JSON's own error is one too
            read_environment(nothing)


def test_many_names_are_cut_short():
    assert format_names(["a", "b"]) == "a, b"
    assert format_names(["a", "b", "c", "d", "e"]) == "a, b, c and 2 more"


CONDA = json.dumps({"url": "file:///build/feedstock_root/build_artifacts/x/work"})
WHEEL = json.dumps({"url": "file:///home/you/x-1-py3-none-any.whl", "archive_info": {}})
BY_SSH = json.dumps({"url": "ssh://git@h/r", "vcs_info": {"vcs": "git", "commit_id": "abc"}})


def test_what_conda_installed_is_asked_for_by_its_version():
    here = environment(numpy=("2.1", CONDA), odd=("1", WHEEL), pandas=("3.0", ""))
    by_conda = replace(here, conda=frozenset({"numpy", "odd"}))

    assert lacking(here, environment()) == ("numpy==2.1", "pandas==3.0")
    assert lacking(by_conda, environment()) == ("numpy==2.1", "odd==1", "pandas==3.0")


def test_what_only_the_notebooks_server_needs_stays_here_and_comes_pinned_if_it_is_asked_for():
    here = environment(jupyterlab="4.6", numpy="2.1", **{"Send2Trash": "2.0"})

    assert lacking(here, environment()) == ("numpy==2.1",)
    assert at_home(here, environment()) == ("Send2Trash==2.0", "jupyterlab==4.6")


def test_what_is_nowhere_but_here_is_named_with_the_remedy():
    here = environment(
        mine=("1", FOLDER),
        x=("1", WHEEL),
        private=("1", BY_SSH),
        a="1",
        **{DISTRIBUTION: ("1", FOLDER)},
    )

    assert remaining(here) == ("mine", "private", "x")
    [note] = notes(here, "3.11", "Debian 12")
    assert note.startswith("Nodes do without mine, private, x: ")
    assert "--prepare" in note
    assert notes(environment(a="1", **{DISTRIBUTION: ("1", FOLDER)}), "3.11", "Debian 12") == ()


def test_a_version_of_ones_own_building_is_named_and_pytorchs_are_not():
    here = environment(mine="1.0+g1234", torch="2.13.0+cpu", other="1.0")

    [note] = notes(here, "3.11", "Debian 12")

    assert note.startswith("Of mine 1.0+g1234 nodes get")


@pytest.mark.parametrize(
    ("version", "build"),
    [("2.13.0+cpu", "cpu"), ("2.13.0+cu126", "cu126"), ("2.13.0", ""), ("2.13.0+mine; ls", "")],
)
def test_the_build_of_pytorch_is_the_one_that_is_here(version, build):
    assert torch_build(environment(torch=version)) == build


def test_another_python_than_the_images_is_reported_with_its_source():
    assert notes(environment(), "", "ami-1") == ()
    [note] = notes(environment(), "3.12", "Ubuntu 24.04")
    assert note.startswith("Ubuntu 24.04 has Python 3.12; nodes get 3.11 from the releases")
    assert note.endswith("so they have to reach releases.astral.sh or github.com too.")


def test_where_pip_asks_an_index_of_ones_own_nodes_may_get_another_package():
    here = replace(environment(), indexes=("pip.example.org",))

    [note] = notes(here, "3.11", "Debian 12")

    assert note.startswith("pip asks pip.example.org here, and on nodes the public index alone")
    assert "--prepare" in note


def test_what_is_wished_beside_it_is_asked_for_where_nothing_of_it_is_there():
    wanted = ("cupy-cuda12x[ctk]>=14", "nvidia-nccl-cu12")

    assert lacking_of(wanted, environment()) == wanted
    assert lacking_of(wanted, environment(**{"cupy_cuda12x": "14"})) == ("nvidia-nccl-cu12",)
