import subprocess
import sys

import pytest

from workbench.compat.requirements import ResolutionError, WorkingSet


def test_an_installed_version_satisfies():
    WorkingSet().require("numpy>=2", "chainer==7.8.1")


@pytest.mark.parametrize("requirement", ["numpy<2", "no-such-distribution"])
def test_another_version_or_none_does_not_satisfy(requirement):
    with pytest.raises(ResolutionError):
        WorkingSet().require(requirement)


def test_chainers_own_decorators_ask_it():
    # In a Python of its own: chainer.testing uses marks that this suite does not know.
    code = (
        "import workbench.compat; from chainer.testing import doctest_helper, with_requires\n"
        "print(with_requires('numpy<2')(type('Case', (), {})).__unittest_skip__)\n"
        "print(doctest_helper.skipif_requires_satisfied('numpy>=2'))"
    )

    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60
    )

    assert done.stdout == "True\nTrue\n", done.stderr
