"""Explain a Chainer type error on NumPy 2, without importing Chainer."""

REMEDY = (
    "an array is float64 where the model's parameters are float32 "
    "(with NumPy 2, a float32 array combined with a float64 scalar becomes float64): "
    "pass x.astype('float32'), or set chainer.global_config.dtype = numpy.dtype('float64') "
    "before the model is built."
)


def explain(exc: BaseException) -> str | None:
    """Return one sentence with the remedy if ``exc`` is Chainer's type error for float64 data.

    Args:
        exc: Any exception; Chainer's ``InvalidType`` is recognised by name.
    """
    if not any(
        cls.__name__ == "InvalidType" and cls.__module__ == "chainer.utils.type_check"
        for cls in type(exc).__mro__
    ):
        return None
    found = str(getattr(exc, "actual", exc))
    if "float64" in found and "float32" in found:
        return f"{found}: {REMEDY}"
    return None
