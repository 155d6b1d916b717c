"""The replacements that Chainer 7.8.1 needs on Python 3.11 to 3.13 with NumPy 2 and CuPy 14.

"NEP 50" is NumPy 2's rule that a NumPy scalar keeps its precision when it meets a Python number,
where NumPy 1 went to float64; multiplying by ``numpy.int64(1)`` gives what NumPy 1 gave.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple


class Replacement(NamedTuple):
    """One exact text, its replacement, and why.

    Attributes:
        old: Text that must occur exactly ``times`` times.
        new: Text with as many line breaks as ``old``, so that line numbers stay true.
        why: The change in Python, NumPy, SciPy or CuPy that makes it necessary.
        times: How often ``old`` occurs in the pinned version.
    """

    old: str
    new: str
    why: str
    times: int = 1


class RewriteError(ValueError):
    """The text to be replaced is not in the source as often as expected."""


def rewrite(source: str, replacements: Sequence[Replacement]) -> str:
    """Return ``source`` with every replacement made.

    Raises:
        RewriteError: A text occurs more or less often than it should.
    """
    for old, new, _, times in replacements:
        found = source.count(old)
        if found != times:
            first = old.strip().splitlines()[0]
            raise RewriteError(f"{first!r} occurs {found} times instead of {times}")
        source = source.replace(old, new)
    return source


_NEP50_SUM = "NEP 50: sums of float16 or float32 scalars would stay in that precision"
_PKG_RESOURCES = "pkg_resources left setuptools"
_HALF = "CuPy 14's carray.cuh no longer defines half"
_HOST_MPI = "an MPI that was not built for CUDA cannot read a GPU's memory"

# The calls of MPI to which a communicator of ChainerMN passes arrays, and how often.
_WITH_BUFFERS = {
    "Allgatherv": 1,
    "Allreduce": 2,
    "Alltoallv": 1,
    "Bcast": 3,
    "Gatherv": 2,
    "Recv": 2,
    "Scatterv": 2,
    "Ssend": 1,
}

TABLE: Mapping[str, tuple[Replacement, ...]] = {
    "chainer._environment_check": (
        Replacement(
            "import numpy.distutils.system_info\nimport pkg_resources\n",
            "\n\n",
            "numpy.distutils left NumPy, pkg_resources left setuptools",
        ),
        Replacement(
            "    _check_osx_numpy_backend()\n    _check_optional_dependencies()\n",
            "    # Both checks ask modules that are gone: numpy.distutils for\n"
            "    # its BLAS, pkg_resources for releases of CuPy up to 7.\n",
            "the checks need what is gone",
        ),
    ),
    "chainer.dataset.convert": (
        Replacement(
            "numpy.maximum(shape, array.shape, shape)",
            "numpy.maximum(shape, array.shape, out=shape)",
            "a positional out is deprecated",
        ),
        Replacement(
            "result = device.xp.full(shape, padding, dtype=arrays[0].dtype)",
            "result = device.xp.full(shape, numpy.asarray(padding).astype("
            "arrays[0].dtype)[()], dtype=arrays[0].dtype)",
            "NEP 50: -1 into an unsigned array raises",
        ),
    ),
    "chainer.distributions.categorical": (
        Replacement(
            "        mg = numpy.meshgrid(\n"
            "            *(range(i) for i in self.batch_shape),\n"
            "            indexing='ij')\n",
            "        mg = list(numpy.meshgrid(\n"
            "            *(range(i) for i in self.batch_shape),\n"
            "            indexing='ij'))\n",
            "meshgrid returns a tuple",
        ),
    ),
    "chainer.functions.array.as_strided": (
        Replacement(
            "for t in np.sctypes['int']}",
            "for t in (np.int8, np.int16, np.int32, np.int64)}",
            "np.sctypes left NumPy",
        ),
        Replacement(
            "gy.dtype not in np.sctypes['float']:",
            "gy.dtype not in (np.float16, np.float32, np.float64, np.longdouble):",
            "np.sctypes left NumPy",
        ),
    ),
    "chainer.functions.array.pad_sequence": (
        Replacement(
            "        y = xp.empty(shape, xs[0].dtype)\n",
            "        y = xp.empty(shape, xs[0].dtype); "
            "padding = numpy.asarray(self.padding).astype(y.dtype)[()]\n",
            "NEP 50: -1 into an unsigned array raises",
        ),
        Replacement("y[i, l:] = self.padding", "y[i, l:] = padding", "the same"),
        Replacement("lengths, self.padding, base", "lengths, padding, base", "the same"),
    ),
    "chainer.functions.array.resize_images": (
        Replacement("dtype=numpy.float)", "dtype=float)", "numpy.float left NumPy", times=6),
    ),
    "chainer.functions.loss.softmax_cross_entropy": (
        Replacement(
            "self._coeff = 1.0 / max(count, 1)",
            "self._coeff = 1.0 / int(max(count, 1))",
            "NEP 50: a float64 coefficient would widen the loss's arithmetic",
        ),
        Replacement(
            "gx *= gloss * self.coeff",
            "gx *= float(gloss * numpy.float64(self.coeff))",
            "NEP 50: the same for its gradient",
        ),
    ),
    "chainer.functions.math.fix": (
        Replacement("xp.fix(x)", "xp.trunc(x)", "numpy.fix is deprecated"),
    ),
    "chainer.functions.math.sparse_matmul": (
        Replacement(
            "    _n = B.shape[-1]\n    if B.ndim == 2:\n        sp_A = ",
            "    _n = B.shape[-1]; A_data, B = (a.astype(numpy.float32) if "
            "a.dtype == numpy.float16 else a for a in (A_data, B))\n"
            "    if B.ndim == 2:\n        sp_A = ",
            "scipy.sparse rejects float16",
        ),
    ),
    "chainer.iterators.multiprocess_iterator": (
        Replacement("thread.setDaemon(True)", "thread.daemon = True", "setDaemon is deprecated"),
    ),
    "chainer.links.activation.maxout": (
        Replacement(
            "                array.shape = (out_size, pool_size, in_size)\n"
            "                initialW_orig(array)\n"
            "                array.shape = (linear_out_size, in_size)\n",
            "                # A view: what is written here is written to array.\n"
            "                initialW_orig(\n"
            "                    array.reshape(out_size, pool_size, in_size))\n",
            "setting an array's shape is deprecated",
        ),
        Replacement(
            "                array.shape = (out_size, pool_size)\n"
            "                initial_bias_orig(array)\n"
            "                array.shape = linear_out_size,\n",
            "                # A view: what is written here is written to array.\n"
            "                initial_bias_orig(\n"
            "                    array.reshape(out_size, pool_size))\n",
            "setting an array's shape is deprecated",
        ),
    ),
    "chainer.optimizer_hooks.gradient_clipping": (
        Replacement(
            "sq_sums.append(sum(dots))",
            "sq_sums.append(sum(dots if device.xp is not numpy else map(numpy.float64, dots)))",
            _NEP50_SUM,
        ),
        Replacement(
            "            rate = self.threshold / norm\n",
            "            rate = self.threshold / norm; "
            "rate = float(rate) if device.xp is numpy else rate\n",
            "NEP 50: a float64 rate would widen the gradient's arithmetic",
        ),
    ),
    "chainer.optimizer_hooks.gradient_lars": (
        Replacement(
            "import chainer\nfrom chainer import backend\n",
            "import numpy; import chainer\nfrom chainer import backend\n",
            "for the replacements below",
        ),
        Replacement(
            "p_norm = xp.linalg.norm(p)\n",
            "p_norm = xp.linalg.norm(p) * (1 if xp is not numpy else numpy.int64(1))\n",
            "NEP 50: in float16 eps is 0, and a gradient of zeros becomes NaN",
        ),
        Replacement(
            "g_norm = xp.linalg.norm(g)\n",
            "g_norm = xp.linalg.norm(g) * (1 if xp is not numpy else numpy.int64(1))\n",
            "the same",
        ),
        Replacement(
            "rate = xp.where(p_norm > self.threshold, local_rate, 1.0)\n",
            "rate = xp.where(p_norm > self.threshold, local_rate, 1.0); "
            "rate = rate if xp is not numpy else rate.astype("
            "numpy.result_type(g, numpy.min_scalar_type(rate)))\n",
            "NEP 50: a float64 rate would widen the gradient's arithmetic",
        ),
    ),
    "chainer.reporter": (
        Replacement(
            "            value = value.as_grad_stopped()\n\n"
            "        with chainer.using_device(backend.get_device_from_array(value)):\n"
            "            self._x += ",
            "            value = value.as_grad_stopped()\n"
            "        value, weight = (v * one if isinstance(v, (numpy.generic, numpy.ndarray)) "
            "and v.ndim == 0 else v "
            "for v, one in ((value, numpy.float64(1)), (weight, numpy.int64(1))))\n"
            "        with chainer.using_device(backend.get_device_from_array(value)):\n"
            "            self._x += ",
            _NEP50_SUM,
        ),
    ),
    "chainer.testing.doctest_helper": (
        Replacement(
            "import pkg_resources\n",
            "from workbench.compat import requirements as pkg_resources\n",
            _PKG_RESOURCES,
        ),
    ),
    "chainer.testing.helper": (
        Replacement(
            "import pkg_resources\n",
            "from workbench.compat import requirements as pkg_resources\n",
            _PKG_RESOURCES,
        ),
    ),
    "chainer.training.extensions.micro_average": (
        Replacement(
            "from chainer import reporter\n",
            "import numpy; from chainer import reporter\n",
            "for the replacement below",
        ),
        Replacement(
            "        self._numerator += observation[self._numerator_key]\n"
            "        self._denominator += observation[self._denominator_key]\n",
            "        self._numerator, self._denominator = (s + (v * numpy.int64(1) "
            "if isinstance(v, (numpy.generic, numpy.ndarray)) and v.ndim == 0 else v) "
            "for s, v in (\n"
            "            (self._numerator, observation[self._numerator_key]), "
            "(self._denominator, observation[self._denominator_key])))\n",
            _NEP50_SUM,
        ),
    ),
    "chainer.variable": (
        Replacement(
            "device = getattr(array, 'device', 'CPU')",
            "device = 'CPU' if isinstance(array, numpy.ndarray) else array.device",
            "NumPy's arrays now have a device, named 'cpu'",
        ),
    ),
    "chainermn.communicators._memory_utility": (
        Replacement(
            "v = xp.array(v, copy=False, dtype=transfer_dtype)",
            "v = v.astype(transfer_dtype, copy=False)",
            "array(copy=False) raises where a copy is needed",
        ),
        Replacement(
            "def _cupy_batched_pack_params():\n    return chainer.cuda.raw(r'''",
            "def _cupy_batched_pack_params():\n"
            "    return chainer.cuda.raw('#include <cuda_fp16.h>' r'''",
            _HALF,
        ),
        Replacement(
            "def _cupy_batched_unpack_params():\n    return chainer.cuda.raw(r'''",
            "def _cupy_batched_unpack_params():\n"
            "    return chainer.cuda.raw('#include <cuda_fp16.h>' r'''",
            _HALF,
        ),
    ),
    "chainermn.communicators.mpi_communicator_base": (
        Replacement(
            "import mpi4py\nimport numpy\n",
            "import mpi4py; from workbench.compat.device_buffers import DeviceBufferComm as _Comm\n"
            "import numpy\n",
            "for the replacements below",
        ),
        Replacement(
            "import chainerx\n",
            "import chainerx; _on_gpus = chainer.backends.cuda.available\n",
            "for the replacements below: without GPUs a call costs nothing more",
        ),
        *(
            Replacement(
                f"self.mpi_comm.{name}(",
                f"(_Comm(self.mpi_comm) if _on_gpus else self.mpi_comm).{name}(",
                _HOST_MPI,
                times=times,
            )
            for name, times in _WITH_BUFFERS.items()
        ),
    ),
    "chainermn.optimizers": (
        Replacement(
            "    if double_buffering:\n",
            "    if double_buffering and not hasattr(communicator, 'multi_node_optimizer'):\n",
            "a communicator of ours has optimizers of its own",
        ),
        Replacement(
            "    return _MultiNodeOptimizer(actual_optimizer, communicator,\n"
            "                               zero_fill)\n",
            "    return getattr(communicator, 'multi_node_optimizer', _MultiNodeOptimizer)(\n"
            "        actual_optimizer, communicator, zero_fill, "
            "**({'double_buffering': True} if double_buffering else {}))\n",
            "a communicator of ours has optimizers of its own",
        ),
    ),
    "chainermn.extensions.observation_aggregator": (
        Replacement(
            'value.to_device("native")',
            "value.to_cpu()",
            'without ChainerX there is no device "native"',
        ),
    ),
    "chainermn.iterators.multi_node_iterator": (
        Replacement("int(_size)", "int(_size[0])", "int() of an array with one element raises"),
    ),
}
