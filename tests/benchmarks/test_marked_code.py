"""Marked modules behave as before, and say which of them have executed a function."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from benchmarks.executed_modules import HOOK
from benchmarks.marked_code import FOLDER_VARIABLE, MarkedCode

SOURCES = {
    "__init__": "from sample.early import Early\n",
    "early": "class Early:\n    @property\n    def value(self):\n        return 1\n",
    "words": 'def say():\n    """Say it."""\n    yield say.__doc__\n',
    "sums": "add = lambda a, b: a + b\nclass Table:\n    __rows = 2\n"
    "    async def rows(self):\n        return self.__rows\n",
    "unused": "def never():\n    pass\nclass Idle:\n    size = 3\n",
}
USING = """\
import os, sys
import sample.sums, sample.unused, sample.words
print(list(sample.words.say()), sample.sums.add(1, 2), sample.unused.Idle.size)
if os.fork() == 0:
    try:
        sample.sums.Table().rows().send(None)
    except StopIteration as done:
        os._exit(done.value)
print(os.waitstatus_to_exitcode(os.wait()[1]))
if sys.argv[1:]:
    print(sample.Early().value)
    sample.sums.add(1, "")
"""


def test_modules_with_a_function_executed_are_found_in_all_processes(tmp_path: Path) -> None:
    package, folder, site = tmp_path / "sample", tmp_path / "marked", tmp_path / "site"
    for one in (package, folder, site):
        one.mkdir()
    for name, source in SOURCES.items():
        (package / f"{name}.py").write_text(source, encoding="utf-8")
    marked = MarkedCode(folder, package)

    def use(*words: str) -> subprocess.CompletedProcess[str]:
        path = os.pathsep.join(map(str, (HOOK, tmp_path)))
        variables = {"PYTHONPATH": path, FOLDER_VARIABLE: str(folder)}
        command = [sys.executable, "-c", USING, *words]
        return subprocess.run(
            command, env=os.environ | variables, capture_output=True, text=True, check=False
        )

    assert use().stdout == "['Say it.'] 3 3\n2\n"
    assert marked.executed() == {"sample.words", "sample.sums"}
    marked.clear()
    assert marked.executed() == set()
    failed = use("early")
    assert "sample.early" in marked.executed()
    # Lines are those of the file, so that a traceback is right.
    assert 'sums.py", line 1, in <lambda>' in failed.stderr
