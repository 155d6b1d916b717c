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


def test_chainers_setup_finds_what_it_asks_where_setuptools_has_dropped_it(tmp_path):
    (tmp_path / "chainer").mkdir()
    (tmp_path / "chainer" / "_version.py").write_text("__version__ = '7.8.1'\n")
    code = (
        "import workbench.compat.finder as finder\n"
        "finder.PathFinder = type('Without', (), {'find_spec': lambda *_: None})\n"
        "import pkg_resources\n"
        "print(pkg_resources.get_distribution('numpy').metadata['Name'])\n"
        "try: pkg_resources.get_distribution('onnx_chainer')\n"
        "except pkg_resources.DistributionNotFound: print('none')"
    )

    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True, text=True, check=False, timeout=60, cwd=tmp_path,
    )  # fmt: skip

    assert done.stdout == "numpy\nnone\n", done.stderr
