import importlib.util
from pathlib import Path

import pytest

from workbench.compat.finder import CHAINER, Loader
from workbench.compat.table import TABLE

CASES = [(name, entry) for name, entries in TABLE.items() for entry in entries]
MODULES = pytest.mark.parametrize("name", TABLE)


def path_of(name: str) -> Path:
    """Find a module's file without importing it: chainermn would start MPI."""
    site = Path(importlib.util.find_spec("chainer").origin).parents[1]
    return site.joinpath(*name.split(".")).with_suffix(".py")


@pytest.mark.parametrize(("name", "entry"), CASES, ids=[f"{n}-{e.old[:20]!r}" for n, e in CASES])
def test_the_old_text_occurs_in_the_pinned_chainer_as_often_as_the_table_says(name, entry):
    text = path_of(name).read_text(encoding="utf-8")

    assert text.count(entry.old) == entry.times


@pytest.mark.parametrize(("name", "entry"), CASES, ids=[f"{n}-{e.old[:20]!r}" for n, e in CASES])
def test_a_replacement_keeps_line_numbers_and_gives_a_reason(name, entry):
    assert entry.new.count("\n") == entry.old.count("\n")
    assert entry.why


@MODULES
def test_each_replaced_module_compiles_under_its_real_file_name(name):
    path = str(path_of(name))

    code = Loader(name, path).get_code(name)

    assert code.co_filename == path


def test_the_table_is_for_the_chainer_that_is_installed():
    version = path_of("chainer._version").read_text(encoding="utf-8")

    assert f"__version__ = '{CHAINER}'" in version


def test_both_packing_kernels_of_pure_nccl_know_half():
    name = "chainermn.communicators._memory_utility"

    text = Loader(name, str(path_of(name))).get_source(name)

    assert text.count("raw('#include <cuda_fp16.h>' r'''\n#include <cupy/carray.cuh>") == 2


def test_unpacking_to_another_precision_copies_only_where_it_must():
    name = "chainermn.communicators._memory_utility"

    text = Loader(name, str(path_of(name))).get_source(name)

    assert "v = v.astype(transfer_dtype, copy=False)" in text
    assert "array(v, copy=False" not in text
