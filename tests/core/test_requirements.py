from __future__ import annotations

import json

import pytest

from workbench.core.requirements import Environment, lacking, read_environment, shown

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
    here = environment(a=("1", GIT), b=("1", FOLDER), c=("1", FILE), workbench=("1", FOLDER))

    assert lacking(here, environment()) == (
        "a @ git+https://h/r@abc",
        "c @ https://h/w-1-py3-none-any.whl",
    )


def test_an_environments_own_tools_do_not_matter():
    assert lacking(environment(pip="25", setuptools="80", workbench="1"), environment()) == ()


def test_what_a_login_shell_says_first_is_passed_over():
    told = {"python": "3.11", "package": "p", "distributions": {"numpy": ["2.1", ""]}}

    assert read_environment(f"Welcome!\n{json.dumps(told)}\n") == environment(numpy="2.1")
    for nothing in ("", "Welcome!", "[]", '{"python": "3"}'):
        with pytest.raises(ValueError):  # noqa: PT011 - JSON's own error is one too
            read_environment(nothing)


def test_many_names_are_cut_short():
    assert shown(["a", "b"]) == "a, b"
    assert shown(["a", "b", "c", "d", "e"]) == "a, b, c and 2 more"
