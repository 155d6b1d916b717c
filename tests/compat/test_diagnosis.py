import chainer
import numpy as np
import pytest
from chainer.utils.type_check import InvalidType

import workbench.compat as compat

F = chainer.functions
WEIGHTS = {"linear": (4, 3), "convolution_2d": (4, 3, 3, 3)}


@pytest.mark.parametrize("name", WEIGHTS)
def test_float64_data_in_a_float32_model_is_explained(name):
    shape = WEIGHTS[name]
    x = np.ones((2, *shape[1:]), np.float32) * np.float64(0.5)
    with pytest.raises(InvalidType) as caught:
        getattr(F, name)(x, np.ones(shape, np.float32), np.ones(4, np.float32))

    sentence = compat.explain(caught.value)

    assert sentence.startswith("float32 != float64: ")
    assert "x.astype('float32')" in sentence


def test_the_remedy_works():
    x = np.ones((2, 3), np.float32) * np.float64(0.5)

    y = F.linear(x.astype("float32"), np.ones((4, 3), np.float32), np.ones(4, np.float32))

    assert y.dtype == np.float32


def test_a_wrong_shape_is_not_explained():
    with pytest.raises(InvalidType) as caught:
        F.linear(np.ones((2, 5), np.float32), np.ones((4, 3), np.float32))

    assert compat.explain(caught.value) is None


def test_another_error_is_not_explained():
    assert compat.explain(ValueError("float64 != float32")) is None
