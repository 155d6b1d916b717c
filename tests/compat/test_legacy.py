import json
import runpy
from pathlib import Path

import pytest

LEGACY = Path(__file__).parent / "legacy"
STACK = runpy.run_path(str(LEGACY / "record.py"))
RECORDED = json.loads((LEGACY / "numpy-1.23.5.json").read_text(encoding="utf-8"))
# Where the numbers were recorded, they are equal to the last digit. Another processor's BLAS and
# SIMD kernels round the last digit differently, on the legacy stack as well.
ROUNDING = {"mlp": 1e-5, "cnn": 1e-5, "mlp_float16": 5e-3}


def flat(value):
    """List the numbers in nested lists and dictionaries."""
    if isinstance(value, dict):
        return flat(list(value.values()))
    return [n for v in value for n in flat(v)] if isinstance(value, list) else [value]


@pytest.mark.parametrize("name", STACK["RECORDED"])
def test_the_numbers_equal_those_of_the_legacy_stack(name):
    found = STACK["RECORDED"][name]()

    assert flat(found) == pytest.approx(flat(RECORDED[name]), rel=ROUNDING.get(name, 0), abs=0)


def test_the_numbers_were_recorded_on_the_legacy_stack():
    assert RECORDED["made with"]["numpy"] == "1.23.5"
    assert RECORDED["made with"]["chainer"] == "7.8.1"
