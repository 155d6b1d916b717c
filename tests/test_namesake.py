"""Another project's package of the same name is found by its metadata."""

from __future__ import annotations

import pytest

from workbench import namesake
from workbench.errors import MachineError


def install(folder, name, *files):
    (folder / f"{name}.dist-info").mkdir()
    (folder / f"{name}.dist-info" / "RECORD").write_text("".join(f"{one},,\n" for one in files))


def test_none_is_found_where_ours_is_alone(tmp_path):
    install(tmp_path, "dist_workbench-0.1.0", "workbench/__init__.py")
    install(tmp_path, "other-1", "other/__init__.py", "other/workbench/__init__.py")
    (tmp_path / "listless-1.dist-info").mkdir()

    assert namesake.find_namesake(tmp_path) == ""


def test_another_one_is_found_with_its_version(tmp_path):
    install(tmp_path, "dist_workbench-0.1.0", "workbench/__init__.py")
    install(tmp_path, "bench_of_others-2.5", "a.py", "workbench/__init__.py")

    assert namesake.find_namesake(tmp_path) == "bench_of_others 2.5"


@pytest.mark.parametrize("system", ["darwin", "win32"])
def test_another_system_than_linux_is_named_with_what_to_do(system):
    with pytest.raises(MachineError) as caught:
        namesake.require_own_package(system)

    assert str(caught.value) == (
        f"workbench needs Linux (pidfd, /proc, Open MPI's wheel for it), and this is {system}; "
        "use a Linux machine with this one's browser, or a virtual machine with Linux."
    )


def test_it_is_said_in_one_sentence_with_the_remedy(monkeypatch):
    monkeypatch.setattr(namesake, "find_namesake", lambda: "workbench 0.8")

    with pytest.raises(MachineError) as caught:
        namesake.require_own_package()

    assert str(caught.value) == (
        "workbench 0.8 is another project, and its files have the places of dist-workbench's, as "
        "both packages are called workbench; keep it out of this environment: `pip uninstall "
        "--yes workbench` and then `pip install --force-reinstall --no-deps dist-workbench`."
    )
