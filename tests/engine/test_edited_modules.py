"""A cell imports the user's own modules again whose files were edited."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from workbench.engine.edited_modules import imported_names, note_sources, with_importers

Edit = Callable[[str, str], None]


@pytest.fixture(autouse=True)
def notebook(folder, monkeypatch) -> Iterator[None]:
    """Be a rank whose modules are found beside the notebook."""
    monkeypatch.setattr(sys, "path", ["", *sys.path])
    finders, modules = [*sys.meta_path], {*sys.modules}
    note_sources()
    yield
    sys.meta_path[:] = finders
    for name in {*sys.modules} - modules:
        del sys.modules[name]


@pytest.fixture
def edit(folder) -> Edit:
    """Write a file beside the notebook, within the same second and of the same length or not."""

    def write(name: str, text: str) -> None:
        path = Path(folder, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        write.count += 1
        os.utime(path, ns=(1_800_000_000_000_000_000 + write.count,) * 2)

    write.count = 0
    return write


def test_an_edited_module_is_imported_again_each_time(perform, printed, edit) -> None:
    for value in (1, 2, 33):
        edit("helper_a.py", f"VALUE = {value}")
        perform("import helper_a\nfrom helper_a import VALUE\nprint(helper_a.VALUE, VALUE)")

    assert printed() == "1 1\n2 2\n33 33\n"


def test_a_module_that_was_not_edited_keeps_its_state(perform, printed, edit) -> None:
    edit("helper_b.py", "VALUES = []")
    edit("helper_c.py", "VALUE = 1")
    perform("import helper_b, helper_c\nhelper_b.VALUES.append(1)")
    edit("helper_c.py", "VALUE = 2")

    perform("import helper_b, helper_c\nprint(helper_b.VALUES, helper_c.VALUE)")

    assert printed() == "[1] 2\n"


def test_a_module_that_was_edited_during_a_cell_is_imported_again(perform, printed, edit) -> None:
    edit("helper_d.py", "VALUE = 1")
    perform("import helper_d, pathlib\nn = pathlib.Path('helper_d.py').write_text('VALUE = 2')")

    perform("import helper_d\nprint(helper_d.VALUE)")

    assert printed() == "2\n"


def test_a_module_that_imports_an_edited_one_is_imported_again(perform, printed, edit) -> None:
    edit("helper_e.py", "VALUE = 1")
    edit("helper_f.py", "from helper_e import VALUE")
    edit("helper_g.py", "import importlib\nother = importlib.import_module('helper_f')")
    perform("import helper_g")
    edit("helper_e.py", "VALUE = 2")

    perform("import helper_g\nprint(helper_g.other.VALUE)")

    assert printed() == "2\n"


def test_a_package_is_imported_again_if_a_part_of_it_was_edited(perform, printed, edit) -> None:
    edit("package_h/__init__.py", "from package_h.layers import width")
    edit("package_h/layers.py", "width = 1")
    edit("package_h/deep/__init__.py", "")
    edit("package_h/deep/more.py", "from ..layers import width as depth")
    cell = "import package_h.deep.more as m\nfrom package_h import layers, width\n"
    perform(cell)
    edit("package_h/layers.py", "width = 2")

    perform(cell + "print(width, layers.width, m.depth)")

    assert printed() == "2 2 2\n"


def test_a_module_of_a_folder_that_was_put_on_the_path_is_imported_again(
    perform, printed, edit
) -> None:
    edit("source/helper_i.py", "VALUE = 1")
    perform("import sys\nsys.path.insert(0, 'source')\nimport helper_i")
    edit("source/helper_i.py", "VALUE = 2")

    perform("import helper_i\nprint(helper_i.VALUE)")

    assert printed() == "2\n"


def test_what_a_cell_has_keeps_its_code(perform, printed, edit) -> None:
    edit("package_j/__init__.py", "")
    edit("package_j/part.py", "VALUE = 1")
    perform("import package_j.part\nfrom package_j.part import VALUE")
    edit("package_j/part.py", "VALUE = 2")

    perform("print(VALUE, package_j.part.VALUE)")

    assert printed() == "1 1\n"


def test_a_removed_file_and_a_broken_one_behave_as_in_a_kernel(perform, printed, edit) -> None:
    edit("helper_k.py", "VALUE = 1")
    perform("import helper_k")
    os.remove("helper_k.py")
    perform("import helper_k\nprint(helper_k.VALUE)")
    edit("helper_k.py", "VALUE =")

    ending = perform("import helper_k")
    edit("helper_k.py", "VALUE = 3")
    perform("import helper_k\nprint(helper_k.VALUE)")

    assert ending.error.startswith("SyntaxError")
    assert printed() == "1\n3\n"


def test_a_package_takes_the_place_of_a_module(perform, printed, edit) -> None:
    edit("helper_n.py", "VALUE = 1")
    perform("import helper_n")
    os.remove("helper_n.py")
    edit("helper_n/__init__.py", "VALUE = 2")

    perform("import helper_n\nprint(helper_n.VALUE)")

    assert printed() == "2\n"


def test_a_notebook_in_another_folder_gets_its_own_module(perform, printed, edit, tmp_path) -> None:
    edit("helper_l.py", "VALUE = 'first'")
    other = tmp_path / "other"
    other.mkdir()
    (other / "helper_l.py").write_text("VALUE = 'other'")
    cell = "import helper_l\nprint(helper_l.VALUE)"

    perform(cell)
    perform(cell, folder=str(other))
    perform(cell)

    assert printed() == "first\nother\nfirst\n"


def test_what_autoreload_changes_in_place_is_left_to_it(perform, printed, edit, shell) -> None:
    edit("helper_m.py", "VALUE = 1")
    perform("import helper_m as kept")
    reloader = SimpleNamespace(enabled=True, check_all=True)
    magics = SimpleNamespace(_reloader=reloader)
    shell.magics_manager = SimpleNamespace(registry={"AutoreloadMagics": magics})
    edit("helper_m.py", "VALUE = 2")

    perform("import helper_m\nprint(helper_m is kept)")

    assert printed() == "True\n"


def test_importers_are_found_by_way_of_others() -> None:
    imports = {"a": {"b"}, "b.part": {"c"}, "c": set(), "d": {"json"}}

    assert with_importers({"c"}, imports) == {"a", "b", "c"}


def test_imports_are_read_wherever_they_are(tmp_path) -> None:
    path = tmp_path / "part.py"
    path.write_text("def f():\n    import a.b\n    from c.d import e\nfrom . import g\n")

    assert imported_names("package.part", str(path)) == {"a", "c", "package"}
