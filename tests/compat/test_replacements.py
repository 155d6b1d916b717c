import io
from contextlib import redirect_stdout
from types import SimpleNamespace

import chainer
import numpy as np
import pytest
from chainer.dataset import concat_examples
from chainer.training.extensions import MicroAverage

F = chainer.functions
L = chainer.links


def updated(hook, start=0.0, **gradients):
    """Make one SGD step with a hook from ``start`` and return the parameters."""
    model = chainer.Chain()
    with model.init_scope():
        for name, gradient in gradients.items():
            setattr(model, name, chainer.Parameter(np.full_like(gradient, start)))
    optimizer = chainer.optimizers.SGD(1.0).setup(model)
    optimizer.add_hook(hook)
    for name, gradient in gradients.items():
        getattr(model, name).grad = gradient
    optimizer.update()
    return model


@pytest.mark.parametrize("dtype", ["float16", "float32", "int8", "uint8", "bool"])
@pytest.mark.parametrize("wrap", [lambda v: v, np.asarray], ids=["scalar", "array"])
def test_a_summary_averages_many_numbers_of_little_precision(dtype, wrap):
    summary = chainer.Summary()

    for _ in range(5000):
        summary.add(wrap(np.dtype(dtype).type(1)), weight=np.int8(1))
    mean, deviation = summary.make_statistics()

    assert (float(mean), float(deviation)) == (1.0, 0.0)


def test_a_dict_summary_averages_float16_variables_with_weights():
    summary = chainer.DictSummary()

    for _ in range(3000):
        summary.add({"loss": (chainer.Variable(np.array(2, np.float16)), np.float16(8))})

    assert summary.compute_mean() == {"loss": 2.0}


def test_a_summary_of_python_numbers_stays_as_it_was():
    summary = chainer.Summary()

    summary.add(1.5, weight=2)

    assert type(summary.compute_mean()) is float


@pytest.mark.parametrize("dtype", ["float16", "int8"])
def test_a_micro_average_sums_beyond_the_precision_of_its_terms(dtype):
    extension = MicroAverage("correct", "total", "accuracy", trigger=lambda trainer: done)
    reporter = chainer.Reporter()
    one = np.dtype(dtype).type(1)

    with reporter:
        for i in range(5000):
            done = i == 4999
            extension(SimpleNamespace(observation={"correct": one, "total": one}))

    assert reporter.observation == {"accuracy": 1.0}


def test_gradient_clipping_sums_float16_norms_beyond_the_range_of_float16():
    gradient = np.full(8, 80, np.float16)

    model = updated(chainer.optimizer_hooks.GradientClipping(1.0), a=gradient, b=gradient.copy())

    assert model.a.array == pytest.approx(np.full(8, -0.25))


def test_gradient_clipping_leaves_a_small_gradient_alone():
    gradient = np.full(2, 0.25, np.float32)

    model = updated(chainer.optimizer_hooks.GradientClipping(1.0), a=gradient)

    assert (model.a.array == -0.25).all()


def test_gradient_clipping_of_float32_rounds_in_float32():
    gradient = np.random.RandomState(0).randn(999).astype(np.float32)
    rate = np.float32(0.5 / np.sqrt(np.float64(gradient.dot(gradient))))

    model = updated(chainer.optimizer_hooks.GradientClipping(0.5), a=gradient.copy())

    assert (model.a.array == -(gradient * rate)).all()


def test_lars_keeps_a_float16_gradient_of_zeros():
    model = updated(chainer.optimizer_hooks.GradientLARS(threshold=-1), a=np.zeros(4, np.float16))

    assert (model.a.array == 0).all()


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_lars_computes_its_rate_in_float64_and_applies_it_in_the_precision_of_its_data(dtype):
    random = np.random.RandomState(0)
    gradients = {f"p{n}": random.randn(n).astype(dtype) for n in range(90, 99)}
    gradients["zeros"] = np.zeros(99, dtype)
    expected = {}
    for name, gradient in gradients.items():
        parameter = np.full_like(gradient, 0.3)
        norm = np.float64(np.linalg.norm(parameter))
        rate = norm / (1e-9 + np.float64(np.linalg.norm(gradient)) + 0.01 * norm)
        expected[name] = parameter - (gradient + 0.01 * parameter) * dtype(rate)
    hook = chainer.optimizer_hooks.GradientLARS(weight_decay=0.01)

    model = updated(hook, start=0.3, **gradients)

    assert all((getattr(model, name).array == expected[name]).all() for name in gradients)


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_softmax_cross_entropy_rounds_its_gradient_in_the_precision_of_its_data(dtype):
    random = np.random.RandomState(0)
    x = chainer.Variable(random.randn(47, 10).astype(dtype))
    t = random.randint(0, 10, 47).astype(np.int32)
    expected = np.exp(F.log_softmax(x).array)
    expected[np.arange(47), t] -= 1
    expected *= dtype(1 / 47)

    F.softmax_cross_entropy(x, t).backward()

    assert (x.grad == expected).all()


def test_a_categorical_gives_the_logarithm_of_the_chosen_probability():
    p = np.array([[0.2, 0.8], [0.5, 0.5]], np.float32)
    distribution = chainer.distributions.Categorical(p)

    found = distribution.log_prob(np.array([1, 0]))

    assert found.array == pytest.approx(np.log([0.8, 0.5]))


@pytest.mark.parametrize("shape", [(3,), (2, 3)])
def test_a_sparse_product_takes_float16(shape):
    dense = np.arange(6, dtype=np.float16).reshape(3, 2)
    matrix = np.broadcast_to(np.eye(3, dtype=np.float16) * 2, (*shape[:-1], 3, 3))
    dense = np.broadcast_to(dense, (*shape[:-1], 3, 2))

    y = F.sparse_matmul(chainer.utils.to_coo(matrix.copy()), dense.copy())

    assert y.dtype == np.float16
    assert (y.array == dense * 2).all()


@pytest.mark.parametrize("dtype", ["uint8", "uint32", "int32"])
def test_padding_of_minus_one_wraps_in_unsigned_sequences(dtype):
    sequences = [np.array([1, 2], dtype), np.array([3], dtype)]
    last = np.array(-1).astype(dtype)

    padded = F.pad_sequence(sequences, padding=-1).array
    joined = concat_examples(sequences, padding=-1)

    assert padded.tolist() == joined.tolist() == [[1, 2], [3, last]]
    assert padded.dtype == joined.dtype == dtype


def test_as_strided_goes_forward_and_back():
    x = chainer.Variable(np.arange(4, dtype=np.float32))

    y = F.as_strided(x, (3, 2), (1, 1), 0)
    y.grad = np.ones_like(y.array)
    y.backward()

    assert y.array.tolist() == [[0, 1], [1, 2], [2, 3]]
    assert x.grad.tolist() == [1, 2, 2, 1]


@pytest.mark.parametrize("options", [{}, {"align_corners": False}, {"mode": "nearest"}])
def test_images_are_resized(options):
    images = np.ones((1, 1, 4, 4), np.float32)

    resized = F.resize_images(images, (6, 3), **options)

    assert resized.array == pytest.approx(np.ones((1, 1, 6, 3)))


def test_fix_rounds_towards_zero():
    assert F.fix(np.array([-1.5, 1.5], np.float32)).array.tolist() == [-1, 1]


def test_a_maxout_link_takes_functions_as_initializers():
    def fill(array):
        array[...] = np.arange(array.size).reshape(array.shape)

    link = L.Maxout(2, 3, 2, initialW=fill, initial_bias=fill)

    assert link.linear.W.array.ravel().tolist() == list(range(12))
    assert link.linear.b.array.tolist() == list(range(6))


def test_a_variable_on_the_cpu_says_so():
    text = chainer.Variable(np.ones(2, np.float32)).debug_print()

    assert "- device: CPU\n" in text


def test_the_runtime_information_is_printed():
    out = io.StringIO()

    with redirect_stdout(out):
        chainer.print_runtime_info()

    assert "Chainer: 7.8.1" in out.getvalue()
