"""A launch is one line of text, with placeholders that the node fills in."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from workbench.core.node.launch_protocol import (
    FOLDER,
    Launch,
    Launched,
    launch_text,
    launched_text,
    read_launch,
    read_launched,
)

pairs = st.lists(st.tuples(st.text(), st.text())).map(tuple)


@given(st.builds(Launch, st.text(), pairs, st.lists(st.text()).map(tuple), pairs))
def test_a_launch_survives_the_way_to_the_node(launch) -> None:
    text = launch_text(launch)

    assert text.count("\n") == 1
    assert read_launch(text) == launch


def test_the_paths_of_the_node_are_put_where_they_are_meant() -> None:
    launch = Launch(
        ".w/g1", (("a", f"in {FOLDER}/b"),), ("run", f"{FOLDER}/a"), (("X", f"{FOLDER}/y"),)
    )

    here = launch.at("/home/you")

    assert here == Launch(
        "/home/you/.w/g1",
        (("a", "in /home/you/.w/g1/b"),),
        ("run", "/home/you/.w/g1/a"),
        (("X", "/home/you/.w/g1/y"),),
    )


def test_what_a_login_shell_says_before_the_answer_is_passed_over() -> None:
    answer = launched_text(Launched(42, "/home/you/.w"))

    assert read_launched(f"Welcome!\n\n{answer}") == Launched(42, "/home/you/.w")


def test_what_is_to_be_started_does_not_show_its_secrets() -> None:
    launch = Launch("f", (("key", "secret"),), ("mpiexec",), (("KEY", "secret"),))

    assert "secret" not in repr(launch)
