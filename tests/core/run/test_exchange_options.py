from __future__ import annotations

import pytest

from workbench.core.run.exchange_options import exchange_environment
from workbench.errors import InputError


def test_what_is_not_asked_for_is_not_set():
    assert exchange_environment(None, None) == ()


def test_names_become_variables():
    assert exchange_environment("ring", "powersgd", double_buffering=True) == (
        ("WORKBENCH_COMMUNICATOR", "ring"),
        ("WORKBENCH_COMPRESS", "powersgd"),
        ("WORKBENCH_DOUBLE_BUFFERING", "1"),
    )


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (("rings", None), "There is no communicator 'rings'; did you mean 'ring'?"),
        ((None, "int4"), "There is no compression 'int4'; did you mean 'int8'?"),
        (("horovod", None), "use one of auto, ring, doubling, hierarchical, mpi."),
    ],
)
def test_an_unknown_name_is_refused_with_the_nearest(given, said):
    with pytest.raises(InputError) as caught:
        exchange_environment(*given)

    assert said in str(caught.value)
