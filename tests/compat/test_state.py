import platform

import chainer
import numpy

import workbench.compat as compat


def test_the_status_names_the_versions_and_the_modules_that_are_patched():
    found = compat.status()

    assert found.installed
    assert found.python == platform.python_version()
    assert (found.numpy, found.chainer) == (numpy.__version__, chainer.__version__)
    assert "chainer.reporter" in found.patched
    assert found.problem is None


def test_the_status_reads_as_one_line():
    line = repr(compat.status())

    assert line.startswith("<Compat chainer 7.8.1 on Python 3.")
    assert "modules patched>" in line


def test_the_status_says_when_the_hook_is_away():
    compat.uninstall()
    try:
        line = repr(compat.status())
    finally:
        compat.install()

    assert line.endswith("modules patched, hook not installed>")
