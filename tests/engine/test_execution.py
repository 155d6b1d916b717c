"""A cell or script runs as on one machine: its names, folder, last value and traceback."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from collections.abc import Iterator
from types import SimpleNamespace

import pytest
from IPython.core.interactiveshell import InteractiveShell

from workbench.core.run.cell_names import CellEffects
from workbench.core.run.rank_protocol import Ending
from workbench.engine.boundary import RunStopped
from workbench.engine.output.output_capture import OutputStream

# -- a cell


def test_what_a_cell_leaves_is_there_for_the_next(perform, shell) -> None:
    first = perform("x = 20\ndef double(n):\n    return 2 * n")
    second = perform("y = double(x) + 2")

    assert first == Ending("finished", effects=CellEffects(fixed=("double", "x")))
    assert second == Ending("finished", effects=CellEffects(fixed=("y",)))

    assert shell.user_ns["y"] == 42


def test_names_are_left_even_if_the_cell_fails_later(perform, shell) -> None:
    perform("x = 1\n1 / 0")

    assert shell.user_ns["x"] == 1


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("x = 1\nx + 1", "2\n"),
        ("'text'", "'text'\n"),
        ("x = 1\nx + 1;", ""),
        ("None", ""),
        ("x = 1", ""),
        ("", ""),
        ("print('a')\n3", "a\n3\n"),
    ],
)
def test_the_value_of_the_last_expression_is_shown(perform, printed, source, text) -> None:
    assert perform(source).state == "finished"

    assert printed() == text


def test_parameters_are_set_before_the_cell_runs(perform, printed) -> None:
    perform("print(lr, layers)", parameters=(("lr", 0.1), ("layers", [1, 2])))

    assert printed() == "0.1 [1, 2]\n"


def test_a_cell_inherits_no_future_of_ours(perform, printed) -> None:
    perform("def f(x: int): ...\nf.__annotations__['x'] is int")

    assert printed() == "True\n"


def test_a_cell_may_ask_for_a_future_of_its_own(perform, printed) -> None:
    perform("from __future__ import annotations\ndef f(x: Unknown): ...\nf.__annotations__")

    assert printed() == "{'x': 'Unknown'}\n"


def test_the_source_of_what_a_cell_defines_can_be_shown(perform, printed) -> None:
    perform("import inspect\ndef f():\n    return 1  # one\nprint(inspect.getsource(f))")

    assert "return 1  # one" in printed()


def test_a_cell_is_transformed_as_ipython_does(perform, shell) -> None:
    calls: list[str] = []
    shell.user_ns["get_ipython"] = lambda: SimpleNamespace(system=calls.append)

    perform("!ls -l")

    assert calls == ["ls -l"]


# -- a script


def test_a_script_finds_itself_as_main_with_its_arguments(perform, printed, script) -> None:
    source = "import sys\nprint(__name__, __file__, sys.argv, sys.path[0])"

    perform(source, path=script, arguments=("--epoch", "3"))

    folder = os.path.dirname(script)
    assert printed() == f"__main__ {script} ['{script}', '--epoch', '3'] {folder}\n"


def test_a_script_imports_what_lies_beside_it(perform, printed, script) -> None:
    os.makedirs(os.path.dirname(script))
    with open(os.path.join(os.path.dirname(script), "beside_the_script.py"), "w") as file:
        file.write("value = 7\n")

    perform("import beside_the_script\nprint(beside_the_script.value)", path=script)

    del sys.modules["beside_the_script"]
    assert printed() == "7\n"


@pytest.mark.parametrize("then", ["break", "sys.exit(3)"])
def test_a_script_that_saves_its_state_and_ends_has_been_stopped(perform, script, then) -> None:
    source = (
        "import signal, sys\nfrom workbench import report\n"
        "from workbench.engine.run_context import current\n"
        "saves = []\nsignal.signal(signal.SIGTERM, lambda *_: saves.append(True))\n"
        "current().boundaries.asks_script = True\ncurrent().boundaries.stop_at(3)\n"
        f"for n in range(9):\n    report(loss=n)\n    if saves: {then}\n"
    )

    ending = perform(source, path=script)

    assert (ending.state, ending.iteration) == ("stopped", 3)


def test_a_scripts_names_are_none_of_a_cells(perform, shell, script) -> None:
    perform("model = 'net'", path=script)

    assert "model" not in shell.user_ns


@pytest.mark.parametrize("name", ["pack.deep.train", "pack.__main__"])
def test_a_module_is_run_as_python_does(perform, printed, tmp_path, name) -> None:
    (tmp_path / "pack" / "deep").mkdir(parents=True)
    (tmp_path / "pack" / "__init__.py").write_text("value = 5\n")
    (tmp_path / "pack" / "deep" / "layers.py").write_text("from pack import value\n")
    (tmp_path / "pack" / "deep" / "__init__.py").write_text("")
    path = str(tmp_path.joinpath(*name.split("."))) + ".py"
    near = ".layers" if "deep" in name else ".deep.layers"
    source = (
        f"import sys\nfrom {near} import value\n"
        "print(__name__, __package__, __spec__.name, sys.argv[1:], value)"
    )

    perform(source, path=path, module=name, arguments=("--lr", "1"))

    package = name.rpartition(".")[0]
    assert printed() == f"__main__ {package} {name} ['--lr', '1'] 5\n"


def test_a_script_sees_nothing_that_cells_left(perform, shell, script) -> None:
    shell.user_ns["left"] = 1

    ending = perform("left", path=script)

    assert ending.error == "NameError: name 'left' is not defined"


def test_a_script_can_pickle_what_it_defines(perform, printed, script) -> None:
    source = "import pickle\nclass A: ...\nprint(type(pickle.loads(pickle.dumps(A()))) is A)"

    perform(source, path=script)

    assert printed() == "True\n"


# -- around both


def test_a_run_happens_in_its_folder_and_stays_there(perform, printed, folder) -> None:
    perform("import os\nprint(os.getcwd())")

    assert printed() == f"{folder}\n"
    assert os.getcwd() == folder


def test_a_folder_that_is_gone_leaves_the_engine_where_it_is(perform, tmp_path) -> None:
    assert perform("x = 1", folder=str(tmp_path / "gone")).state == "finished"

    assert os.getcwd() == str(tmp_path)


@pytest.mark.parametrize("before", ["old", None])
def test_the_environment_is_the_runs_own_and_then_as_it_was(
    perform, printed, monkeypatch, before
) -> None:
    monkeypatch.delenv("WB_TEST", raising=False)
    if before:
        monkeypatch.setenv("WB_TEST", before)

    perform("import os\nprint(os.environ['WB_TEST'])\n1 / 0", environment=(("WB_TEST", "new"),))

    assert printed() == "new\n"
    assert os.environ.get("WB_TEST") == before


# -- endings


def test_a_run_gets_the_place_of_its_data_and_finds_a_folder_for_its_output(
    perform, printed, tmp_path, monkeypatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("WORKBENCH_OUTPUT", raising=False)
    source = "import os\nprint(os.environ['WORKBENCH_DATA'], os.environ['WORKBENCH_OUTPUT'])"

    perform(source, data="/data", output="~/workbench-output/c/run")

    assert printed() == f"/data {tmp_path}/workbench-output/c/run\n"
    assert (tmp_path / "workbench-output" / "c" / "run").is_dir()
    assert "WORKBENCH_OUTPUT" not in os.environ


def test_an_output_folder_that_cannot_be_made_is_reported_and_the_run_continues(
    perform, printed
) -> None:
    ending = perform("print('on')", output="/dev/null/output")

    assert ending.state == "finished"
    assert printed().endswith("on\n")


def test_a_traceback_begins_at_the_users_own_line(perform) -> None:
    ending = perform("def fall():\n    raise ValueError('boom')\n\nfall()")

    assert (ending.state, ending.error) == ("failed", "ValueError: boom")
    assert ending.traceback == (
        "Traceback (most recent call last):\n"
        # The magic is line 1 of the cell.
        '  File "<cell of run 260101-000000-arun>", line 5, in <module>\n'
        "    fall()\n"
        '  File "<cell of run 260101-000000-arun>", line 3, in fall\n'
        "    raise ValueError('boom')\n"
        "ValueError: boom"
    )


def test_the_traceback_of_a_script_names_its_file(perform, script) -> None:
    ending = perform("x = 1\nprint(x.nope)", path=script)

    lines = ending.traceback.splitlines()
    assert lines[1:3] == [f'  File "{script}", line 2, in <module>', "    print(x.nope)"]
    assert "execution.py" not in ending.traceback


def test_the_cause_of_an_error_is_reported_too(perform) -> None:
    source = "try:\n    1 / 0\nexcept ZeroDivisionError as e:\n    raise ValueError('b') from e"

    ending = perform(source)

    assert "ZeroDivisionError" in ending.traceback
    assert ending.traceback.endswith("ValueError: b")
    assert "execution.py" not in ending.traceback


def test_an_error_without_a_frame_of_the_users_has_no_frames_of_ours(perform) -> None:
    ending = perform("for")

    assert ending.error.startswith("SyntaxError: invalid syntax")
    assert "execution.py" not in ending.traceback


def test_libraries_below_the_users_line_are_folded_and_kept(perform) -> None:
    ending = perform("import json\njson.loads('{')")

    assert "frames in json" in ending.traceback
    assert "json/decoder.py" in ending.whole


@pytest.mark.parametrize("source", ["import sys\nsys.exit()", "raise SystemExit(0)", "exit_ = 0"])
def test_leaving_by_exit_is_finishing(perform, source) -> None:
    ending = perform(source)

    assert (ending.state, ending.error) == ("finished", "")
    assert ending.exited == ("exit_" not in source)


@pytest.mark.parametrize(
    ("code", "error"),
    [("3", "SystemExit: 3"), ("'no data'", "no data"), ("'no\\ndata'", "no data")],
)
def test_leaving_by_exit_with_a_code_is_failing(perform, code, error) -> None:
    ending = perform(f"import sys\nsys.exit({code})")

    assert (ending.state, ending.error, ending.exited) == ("failed", error, True)


@pytest.mark.parametrize(
    ("source", "error"),
    [
        (
            "import argparse\np = argparse.ArgumentParser('train')\np.add_argument('--lr')\n"
            "p.parse_args(['--x', '1'])",
            "unrecognized arguments: --x 1 (exit status 2)",
        ),
        (
            "import argparse\np = argparse.ArgumentParser()\np.add_argument('--data', "
            "required=True)\np.add_argument('--lr', type=float)\np.parse_args([])",
            "the following arguments are required: --data (exit status 2)",
        ),
        (
            "import optparse; optparse.OptionParser(prog='train').parse_args(['--x'])",
            "no such option: --x (exit status 2)",
        ),
        (
            "import click; click.command('train')(lambda: 0).main(['--x'])",
            "No such option '--x' (exit status 2)",
        ),
        (
            "import os, sys\nsys.stderr.write('no data\\nin here\\n')\nsys.exit(4)",
            "in here (exit status 4)",
        ),
        ("import sys\nsys.stderr.write('early')\nprint(1)\nsys.exit(4)", "SystemExit: 4"),
        ("import sys\nsys.stderr.write('\\r 50%')\nsys.exit(4)", "SystemExit: 4"),
    ],
    ids=["unknown", "required", "optparse", "click", "own", "earlier", "bar"],
)
@pytest.mark.parametrize("path", [None, "train.py"], ids=["cell", "script"])
def test_what_is_written_just_before_an_exit_is_its_reason(perform, source, error, path) -> None:
    with contextlib.redirect_stderr(OutputStream("stderr", io.StringIO())):
        ending = perform(source, **({"path": path} if path else {}))

    assert (ending.state, ending.error, ending.exited) == ("failed", error, True)


def test_a_cell_whose_arguments_are_wrong_says_how_to_give_them(perform) -> None:
    source = "import argparse\nargparse.ArgumentParser().parse_args(['--x'])"

    assert "A cell has no arguments; set them before" in perform(source).traceback
    assert "A cell has no arguments" not in perform(source, path="train.py").traceback


def test_an_interrupted_run_has_stopped_and_says_where(perform) -> None:
    ending = perform("x = 1\nraise KeyboardInterrupt")

    assert (ending.state, ending.error) == ("stopped", "interrupted")
    assert "line 3" in ending.traceback  # the magic is line 1


def test_a_run_that_stops_at_a_boundary_says_at_which_iteration(perform) -> None:
    source = """
import workbench
from workbench.engine.run_context import current
current().boundaries.stop_at(3)
for i in range(10):
    try:
        workbench.report(loss=i)
    except Exception:
        pass
"""

    ending = perform(source)

    assert (ending.state, ending.iteration, ending.error) == ("stopped", 3, "")


def test_an_error_says_how_far_the_run_was(perform) -> None:
    ending = perform("import workbench\nworkbench.report(iteration=12, loss=1)\n1 / 0")

    assert ending.iteration == 12


def test_an_error_that_cannot_say_what_it_is_is_reported_all_the_same(perform) -> None:
    source = "class Odd(Exception):\n    def __str__(self):\n        raise RuntimeError\nraise Odd"

    ending = perform(source)

    assert ending.state == "failed"
    assert "Odd" in ending.error


def test_a_report_that_is_refused_is_shown_at_the_users_line_alone(perform) -> None:
    ending = perform("import workbench\nworkbench.report(loss=1, epoch=float('nan'))")

    assert ending.error.startswith("report(epoch=…)")
    assert ending.traceback.splitlines()[1].endswith("line 3, in <module>")
    assert ending.traceback.count("  File ") == 1


@pytest.fixture
def shell() -> Iterator[InteractiveShell]:
    yield InteractiveShell.instance()
    InteractiveShell.clear_instance()


@pytest.mark.parametrize("magic", ["%%capture", "%%time"])
def test_an_error_below_a_cell_magic_is_the_runs(perform, magic) -> None:
    ending = perform(f"{magic}\nx = 1\nx / 0")

    assert (ending.state, ending.error) == ("failed", "ZeroDivisionError: division by zero")


def test_a_stop_below_a_cell_magic_stops_the_run(perform, shell) -> None:
    shell.user_ns["RunStopped"] = RunStopped

    assert perform("%%capture\nraise RunStopped").state == "stopped"


def test_what_a_magic_captures_is_there_for_the_next_cell(perform, printed) -> None:
    perform("%%capture captured\nprint('shown later')")
    perform("print(captured.stdout, end='')\n%timeit -n1 -r1 -q 1")

    assert printed() == "shown later\n"


def test_extensions_of_ipython_hear_of_each_cell(perform, shell) -> None:
    heard = []
    for event in ("pre_execute", "post_execute"):
        shell.events.register(event, lambda event=event: heard.append(event))
    shell.events.register("pre_run_cell", lambda info: heard.append(info.raw_cell))
    shell.events.register("post_run_cell", lambda result: heard.append(result.success))

    perform("x = 1")
    perform("1 / 0")

    assert heard == [
        "pre_execute", "x = 1", "post_execute", True,
        "pre_execute", "1 / 0", "post_execute", False,
    ]  # fmt: skip
