"""The earlier cells that a run needs on other ranks, and those that cannot run again."""

from __future__ import annotations

from dataclasses import replace

import pytest

from workbench.core.recovery.replay import (
    DEFINITIONS,
    KNOWN,
    REPEATED_SECONDS,
    PastCell,
    Replays,
    replays,
    split,
    suspects,
)
from workbench.core.run.cell_names import CellEffects, Deed, names_of, refine_names
from workbench.core.run.model import RunState


def past(**sources: str) -> list[PastCell]:
    return [
        PastCell(name, name, names_of(text), RunState.FINISHED) for name, text in sources.items()
    ]


def changed(cells: list[PastCell], name: str, **fields: object) -> list[PastCell]:
    return [
        replace(one, **fields) if one.run == name else one  # type: ignore[arg-type]  # of several types
        for one in cells
    ]


def needed(source: str, cells: list[PastCell]) -> Replays:
    return replays(names_of(source), cells, known=KNOWN)


NOTEBOOK = past(
    imports="import numpy as np, chainer",
    data="data = np.arange(10)",
    other="other = np.ones(3)\nfor _ in range(9):\n    other *= 2",
    model="def net(n):\n    return chainer.Link(n)\nmodel = net(2)",
    look="print(len(data))",
)


def test_the_cells_that_made_its_names_run_again_in_order_and_no_others() -> None:
    found = needed("train(model, data)\ndef train(*_): pass", NOTEBOOK)

    assert found == Replays(("imports", "data", "model", "look"))


def test_a_cell_that_uses_nothing_of_earlier_ones_needs_none() -> None:
    assert needed("x = 1\nprint(x)", NOTEBOOK) == Replays()


def test_a_later_assignment_replaces_an_earlier_one() -> None:
    assert needed("print(x)", past(a="x = 1", b="x = 2")) == Replays(("b",))


def test_one_that_may_not_have_assigned_does_not_replace_it() -> None:
    assert needed("print(x)", past(a="x = 1", b="if False:\n    x = 2")).runs == ("a", "b")


def test_a_cell_that_names_a_value_may_have_changed_it() -> None:
    cells = past(a="model = []", b="model.append(1)", c="f = 1")

    assert needed("print(model)", cells).runs == ("a", "b")


def test_a_cell_that_calls_a_function_of_an_earlier_one_has_not_changed_it() -> None:
    cells = past(a="def f(): pass", b="y = f()")

    assert needed("f()", cells).runs == ("a",)


def test_a_cell_that_sets_up_a_module_runs_again() -> None:
    cells = past(a="import numpy", b="numpy.random.seed(0)", c="import time\ntime.sleep(9)")

    assert needed("x = numpy.ones(1)", cells).runs == ("a", "b")


def test_a_training_that_set_up_a_module_does_not_run_again_for_that() -> None:
    cells = past(a="import numpy", b="numpy.random.seed(0)\nother = 1")

    found = needed("x = numpy.ones(1)", changed(cells, "b", trained=True))

    assert found.runs == ("a",)


def test_what_may_not_matter_is_in_doubt_and_never_a_reason_to_stay() -> None:
    cells = past(a="import numpy", b="numpy.random.seed(0)", c="long = 1", d="x = 1")
    cells = changed(cells, "c", trained=True, seconds=REPEATED_SECONDS + 1)

    found = needed("exec(text + numpy.name + str(x))", cells)

    assert (found.runs, found.in_doubt) == (("a", "b", "d"), {"b"})
    assert found.hindrance == ""


def test_the_variable_of_an_own_loop_is_no_reason_to_stay() -> None:
    found = needed("for step in range(9):\n    pass\nprint(step)", past(a="step = 1"))

    assert (found.runs, found.in_doubt) == (("a",), {"a"})
    assert needed("step = step + 1", past(a="step = 1")).in_doubt == frozenset()


def test_all_run_again_where_a_source_does_not_tell() -> None:
    assert needed("exec(text)", NOTEBOOK).runs == tuple(one.run for one in NOTEBOOK)


def test_what_is_on_the_ranks_does_not_run_again() -> None:
    cells = changed(changed(NOTEBOOK, "data", is_present=True), "imports", is_present=True)

    assert needed("f(data, model)\ndef f(*_): pass", cells).runs == ("model", "look")


def test_nothing_that_a_later_cell_has_left_is_overwritten() -> None:
    cells = changed(past(a="x = 1\ni = 0", b="i = 7"), "b", is_present=True)

    found = needed("print(x)", cells)

    assert found.why_not == ("It uses `x` of run 'a', which would overwrite `i` of a later cell.")


@pytest.mark.parametrize("state", [RunState.FAILED, RunState.LOST])
def test_what_a_failed_cell_may_have_made_cannot_be_repeated(state: RunState) -> None:
    cells = changed(past(a="x = 1", b="x = 2\nraise ValueError"), "b", state=state)

    assert needed("print(x)", cells).hindrance == "It uses `x` of run 'b', which did not finish."


def test_a_cell_that_left_ranks_unfit_is_not_repeated() -> None:
    cells = past(a="import sys\nx = 1", b="sys.path.append(str())\nprint(y)")
    why = "SIGTERM came there"

    found = needed("print(x, sys)", changed(cells, "b", harm=why))

    assert (found.runs, found.left_out) == (("a",), ())
    assert needed("print(x)", changed(cells, "a", harm=why)).why_not == (
        "It uses `x` of run 'a', which is not repeated, because SIGTERM came there."
    )


def test_a_cell_that_wrote_files_is_never_repeated_unasked() -> None:
    cells = changed(past(a="x = []", b="x.append(save())"), "b", deeds=(Deed.WROTE,))

    found = needed("print(x)", cells)

    assert (found.runs, found.why_not) == (("a",), "")
    assert found.left_out == (
        "Run 'b' wrote files, so it is not repeated unasked: run it again if you need it.",
    )


def test_a_run_that_cannot_do_without_such_a_cell_is_withheld() -> None:
    cells = changed(past(a="x = fetch()", b="y = x"), "a", deeds=(Deed.CONNECTED, Deed.WROTE))

    found = needed("print(y)", cells)

    assert found.withheld == "x"
    assert found.why_not == (
        "It uses `x` of run 'a', which used the network and wrote files, so it is not repeated "
        "unasked: run it again if you need it."
    )
    assert needed("try:\n    x\nexcept NameError:\n    x = 1", cells).withheld == ""


def test_imports_and_functions_of_such_a_cell_are_repeated_without_the_rest() -> None:
    source = "import numpy as np\ndef f(): pass\nx = 1\nupload(x)"
    (cell,) = changed(past(a=source), "a", deeds=(Deed.CONNECTED,))
    cells = split(cell, source)

    found = needed("np.ones(f())", cells)

    assert found == Replays(("a" + DEFINITIONS,))
    assert needed("print(x)", cells).withheld == "x"


def test_a_star_import_of_such_a_cell_brings_what_the_ranks_say() -> None:
    source = "from numpy import *\nsave('x', 1)"
    (cell,) = changed(past(a=source), "a", deeds=(Deed.WROTE,))
    names = refine_names(cell.names, [CellEffects(fixed=("array",))], is_done=True)

    found = needed("array", split(replace(cell, names=names), source))

    assert found.runs == ("a" + DEFINITIONS,)


@pytest.mark.parametrize(
    ("there", "is_sure", "is_first", "found"),
    [
        ([], True, True, []),
        ([("a", False), ("b", False)], True, True, ["b"]),  # between two cells, or at a beginning
        ([("a", False), ("b", False)], False, True, []),  # in a cell that may have done it itself
        ([("a", True), ("b", True)], False, True, ["a", "b"]),  # the first one after a replay
        ([("a", True), ("b", False)], True, True, ["b"]),
        ([("a", True), ("b", False)], True, False, ["a", "b"]),
    ],
)
def test_the_last_cell_is_suspected_and_what_was_repeated_together(
    there: list[tuple[str, bool]], is_sure: bool, is_first: bool, found: list[str]
) -> None:
    assert suspects(there, is_sure=is_sure, is_first=is_first) == found


def test_a_failed_cell_that_only_used_a_value_is_passed_over() -> None:
    cells = changed(past(a="x = []", b="print(x)\nraise ValueError"), "b", state=RunState.FAILED)

    assert needed("print(x)", cells).runs == ("a",)


def test_a_failed_cell_that_ran_again_is_passed_over() -> None:
    cells = changed(past(a="x = f()", b="x = 1"), "a", state=RunState.FAILED)

    assert needed("print(x)", cells).runs == ("b",)


def test_a_long_training_needs_a_snapshot_to_run_again() -> None:
    cells = past(a="m = 1", b="m = train(m)\ndef train(m): return m")
    cells = changed(cells, "b", trained=True, seconds=REPEATED_SECONDS + 1)

    assert needed("print(m)", cells).why_not == (
        "It uses `m` of run 'b', which trained for 61 s and saved no snapshot."
    )
    assert needed("print(m)", changed(cells, "b", saved=True)).runs == ("a", "b")


def test_a_name_that_no_cell_has_made_is_named() -> None:
    found = needed("print(x, y)", past(a="x = 1"))

    assert found == Replays(("a",), unknown=("y",))
    assert found.hindrance == "It uses `y`, which no cell on record has made."


def test_set_up_cells_and_parameters_make_names_too() -> None:
    cells = past(a="x = z")

    found = replays(
        names_of("print(x, y, lr)", frozenset({"lr"})),
        cells,
        known=KNOWN,
        prepared=[names_of("y = 1\nz = 2")],
    )

    assert found == Replays(("a",))


def test_a_star_import_may_have_made_any_name() -> None:
    assert needed("print(y)", past(a="from os import *")).unknown == ()
