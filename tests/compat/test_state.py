import platform

import chainer
import numpy
import pytest
from chainer.utils.type_check import InvalidType

import workbench.compat as compat

F = chainer.functions
WEIGHTS = {"linear": (4, 3), "convolution_2d": (4, 3, 3, 3)}


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


@pytest.mark.parametrize("name", WEIGHTS)
def test_float64_data_in_a_float32_model_is_explained(name):
    shape = WEIGHTS[name]
    x = numpy.ones((2, *shape[1:]), numpy.float32) * numpy.float64(0.5)
    with pytest.raises(InvalidType) as caught:
        getattr(F, name)(x, numpy.ones(shape, numpy.float32), numpy.ones(4, numpy.float32))

    sentence = compat.explain(caught.value)

    assert sentence.startswith("float32 != float64: ")
    assert "x.astype('float32')" in sentence


def test_the_remedy_works():
    x = numpy.ones((2, 3), numpy.float32) * numpy.float64(0.5)

    y = F.linear(
        x.astype("float32"), numpy.ones((4, 3), numpy.float32), numpy.ones(4, numpy.float32)
    )

    assert y.dtype == numpy.float32


def test_a_wrong_shape_is_not_explained():
    with pytest.raises(InvalidType) as caught:
        F.linear(numpy.ones((2, 5), numpy.float32), numpy.ones((4, 3), numpy.float32))

    assert compat.explain(caught.value) is None


def test_another_error_is_not_explained():
    assert compat.explain(ValueError("float64 != float32")) is None
