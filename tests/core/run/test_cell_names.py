"""The names of a cell are read off its source, in the order of its statements."""

from __future__ import annotations

import pytest

from workbench.core.run.cell_names import CellEffects, definitions_of, names_of, refine_names

CASES = {
    "assigns": ("x = 1\ny = x + z", {"x", "y"}, {"z"}, set()),
    "changes its own": ("n = n + 1", {"n"}, set(), {"n"}),
    "adds": ("n += 1", {"n"}, set(), {"n"}),
    "one way alone": ("if a:\n    x = 1\nprint(x)", set(), {"a", "print"}, {"x"}),
    "both ways": ("if a:\n    x = 1\nelse:\n    x = 2\nx", {"x"}, {"a"}, set()),
    "loop": ("for i in data:\n    s = i\ns", set(), {"data"}, {"s"}),
    "with": ("with f() as g:\n    x = g\nx", {"g", "x"}, {"f"}, set()),
    "try": ("try:\n    import a\nexcept ImportError:\n    a = None\na", {"a"},
            {"ImportError"}, set()),
    "function": ("def f(x, y=c):\n    w = x + k\n    return w + late\nlate = 1", {"f", "late"},
                 {"c", "k"}, set()),
    "lambda": ("f = lambda x: x + y", {"f"}, {"y"}, set()),
    "comprehension": ("a = [i * k for i in b]", {"a"}, {"b", "k"}, set()),
    "class": ("class A(B):\n    n = m\n    def f(self): return q", {"A"}, {"B", "m", "q"}, set()),
    "method": ("class A:\n    n = k\n    def f(self, x=c): return late + n\nlate = 1",
               {"A", "late"}, {"c", "k", "n"}, set()),
    "import": ("import a.b, c as d\nfrom e import f as g\na.b(d, g)", {"a", "d", "g"}, set(),
               set()),
    "deletes": ("del x", set(), set(), {"x"}),
    "magic": ("%matplotlib inline\nx = y", {"x"}, {"y"}, set()),
    "shell": ("if a:\n    !ls\nx = 1", {"x"}, {"a"}, set()),
    "awaits": ("x = await f()", {"x"}, {"f"}, set()),
    "global": ("def f():\n    global x\n    x = 1", {"f"}, set(), set()),
    "walrus": ("if (n := f()):\n    n", {"n"}, {"f"}, set()),
    "match": ("match a:\n    case [b, *c]:\n        d = b", set(), {"a"}, set()),
}  # fmt: skip


@pytest.mark.parametrize(("source", "binds", "needs", "may_need"), CASES.values(), ids=CASES)
def test_names_are_bound_and_needed_in_order(
    source: str, binds: set[str], needs: set[str], may_need: set[str]
) -> None:
    names = names_of(source)

    assert (names.binds, names.needs, names.may_need) == (binds, needs, may_need)
    assert not names.reads_any
    assert not names.binds_any


@pytest.mark.parametrize("source", ["exec('x = 1')", "eval(text)", "def"])
def test_a_cell_that_cannot_be_read_may_use_and_leave_any_name(source: str) -> None:
    names = names_of(source)

    assert names.reads_any
    assert names.binds_any


@pytest.mark.parametrize("source", ["from a import *", "%run other.py"])
def test_a_star_import_may_leave_any_name_and_uses_none(source: str) -> None:
    names = names_of(source)

    assert names.binds_any
    assert not names.reads_any
    assert not names.needs


@pytest.mark.parametrize(
    ("source", "binds", "needs"),
    [
        ("x = !ls {folder}/*", {"x"}, {"folder"}),
        ("%%bash\necho $name\nrm -r x", set(), {"name"}),
        ("%%time\nx = y", {"x"}, {"y"}),
    ],
)
def test_commands_of_the_shell_use_what_is_put_into_them(
    source: str, binds: set[str], needs: set[str]
) -> None:
    names = names_of(source)

    assert (names.binds, names.needs) == (binds, needs)
    assert not names.reads_any


def test_what_a_cell_has_bound_is_what_its_ranks_say() -> None:
    star = names_of("from numpy import *\nif late:\n    other = 1")
    ranks = [
        CellEffects(bound=("weights",), fixed=("array",), deleted=("old",)),
        CellEffects(fixed=("array",), modules=("linalg",)),
    ]

    names = refine_names(star, ranks, is_done=True)

    assert names.binds == {"array"}
    assert names.may_bind == {"array", "linalg", "old", "weights"}
    assert names.fixed == {"array", "linalg"}
    assert not names.binds_any


def test_executed_text_uses_what_it_mentions() -> None:
    names = refine_names(names_of("exec(text)"), [CellEffects(("x",), read=("y",))], is_done=True)

    assert (names.binds, names.may_need) == ({"x"}, {"y"})
    assert not names.reads_any


def test_a_cell_that_failed_has_bound_what_its_ranks_say_alone() -> None:
    names = refine_names(names_of("x = 1\ny = f()"), [CellEffects(fixed=("x",))], is_done=False)

    assert names.may_bind == {"x"}


def test_definitions_keep_their_lines() -> None:
    source = (
        "import a; upload(); import b\nx = 1\n@d\ndef f(k):\n    return k\nclass C(\n    B\n): pass"
    )

    assert definitions_of(source).splitlines() == [
        "import a; import b", "", "@d", "def f(k):", "    return k", "class C(", "    B", "): pass",
    ]  # fmt: skip


def test_a_parameter_is_bound_from_the_start() -> None:
    names = names_of("x = lr", frozenset({"lr"}))

    assert (names.needs, names.binds) == (frozenset(), {"lr", "x"})


def test_imports_functions_and_classes_are_fixed_unless_assigned_too() -> None:
    names = names_of("import a, b\ndef f(): pass\nclass C: pass\nb = 1")

    assert names.fixed == {"a", "f", "C"}
    assert names.imports == {"a", "b"}


def test_an_effect_is_a_call_or_a_set_part_at_the_top() -> None:
    names = names_of("np.random.seed(0)\nos.environ['A'] = '1'\nx = f.g()\nprint(x)\na.b += 1")

    assert names.effects == {"np", "os", "a"}
