import importlib.util
from pathlib import Path

import pytest

from workbench.compat.finder import CHAINER, Loader
from workbench.compat.table import TABLE, Replacement, RewriteError, rewrite

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


def test_every_occurrence_is_replaced_when_the_count_is_right():
    source = "a = numpy.float\nb = numpy.float\n"

    text = rewrite(source, [Replacement("numpy.float", "float", "gone", times=2)])

    assert text == "a = float\nb = float\n"


@pytest.mark.parametrize("source", ["nothing here\n", "x = old\ny = old\n"])
def test_text_that_occurs_too_rarely_or_too_often_is_refused(source):
    with pytest.raises(RewriteError, match=r"'old' occurs \d times instead of 1"):
        rewrite(source, [Replacement("old", "new", "why")])


def test_a_source_without_replacements_stays_as_it_is():
    assert rewrite("pass\n", ()) == "pass\n"
