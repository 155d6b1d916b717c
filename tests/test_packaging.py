"""Keep what the repository says about itself in step: versions, hosts, paths, commands, reasons."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from packaging.requirements import Requirement

import workbench
from workbench.core.fleet.provider import OWN
from workbench.core.node.requirements import OURS
from workbench.namesake import DISTRIBUTION

ROOT = Path(__file__).parents[1]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PROJECT = PYPROJECT["project"]
# Put together here, so that this file does not name what it looks for.
REGISTRIES = {
    "pypi" + ".org",
    "pythonhosted" + ".org",
    "registry.npm" + "js.org",
    "registry.yarn" + "pkg.com",
    "repo.ana" + "conda.com",
}
HOME_FOLDER = re.compile(r"/(?:home|Users)/(?!you\b|user\b|runner\b)[a-z][\w.-]*/|/ro" + r"ot/\.")
CODES = r"noqa:(?:,?\s*[A-Z]+\d+)+|type:\s*ignore\[[\w, -]+\]"
SUPPRESSION = re.compile(r"#\s*(?:noqa|type:\s*ignore)\b", re.I)
REASONED = re.compile(rf"#\s*(?:{CODES})\s+[#-]\s*\w.*\w{{4}}")

FRONT = (
    r"(?:@ts-(?:ignore|nocheck|expect-error)|(?:eslint|stylelint)-disable[\w-]*|prettier-ignore)"
)
FRONT_SUPPRESSION = re.compile(rf"(?:/[/*]|\*).*{FRONT}\b")
FRONT_REASONED = re.compile(rf"{FRONT}\b.*(?::|--?|–)\s+\w.*[a-z]{{4}}")


def committed() -> dict[str, str]:
    """Give the text of every file that git has, by its path."""
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    listed = subprocess.run(
        ["git", "-c", f"safe.directory={ROOT}", "ls-files", "-z"],
        cwd=ROOT, check=True, capture_output=True, text=True,
    ).stdout  # fmt: skip
    texts = {}
    for name in filter(None, listed.split("\0")):
        path = ROOT / name
        try:
            texts[name] = path.read_text(encoding="utf-8") if path.is_file() else ""
        except UnicodeDecodeError:
            continue  # a picture
    return texts


def configured_hosts() -> set[str]:
    """Give the hosts of the indexes that pip and npm are set to here."""
    said = ""
    npm = shutil.which("npm")
    for command in (
        [sys.executable, "-m", "pip", "config", "list"],
        [npm, "config", "get", "registry"] if npm else [],
    ):
        if command:
            said += subprocess.run(command, check=False, capture_output=True, text=True).stdout
    urls = re.findall(r"https?://[^\s'\"]+", said)
    return {host for url in urls if (host := urlsplit(url).hostname)} - {"localhost", "127.0.0.1"}


def conda_requirements() -> tuple[list[str], list[str]]:
    """Give what environment.yml asks of conda and of pip; reads just the form that we write."""
    conda, pip, into = [], [], None
    for line in (ROOT / "environment.yml").read_text(encoding="utf-8").splitlines():
        indent, dash, item = line.partition("- ")
        if not dash or indent.strip():
            into = conda if line == "dependencies:" else None if line.endswith(":") else into
        elif item == "pip:":
            into = pip
        elif into is not None:
            into.append(item.partition("  #")[0])
    return conda, pip


def test_environment_yml_asks_for_what_pyproject_asks_for():
    extras = PROJECT["optional-dependencies"]
    conda, pip = conda_requirements()

    parts = (PROJECT["dependencies"], *(extras[name] for name in ("chainer", "lab", "demo")))
    wanted = {str(Requirement(text)) for part in parts for text in part}
    assert {str(Requirement(text)) for text in pip if not text.startswith("--")} == wanted
    assert [text for text in pip if text.startswith("--")] == [
        "--constraint constraints.txt",
        "--editable .",
    ]
    assert [text.replace(" ", "") for text in conda] == [
        "python>=3.11,<3.14",  # those of Chainer
        "nodejs>=20.19",  # as extension/hatch.py asks; Debian 12 has 18
        "pip>=25.3",  # the first that takes PIP_BUILD_CONSTRAINT
    ]


def test_constraints_fit_what_pyproject_asks_for():
    pins: dict[str, list[Requirement]] = {}
    for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines():
        pin = Requirement(line)
        pins.setdefault(pin.name, []).append(pin)
    groups = PYPROJECT["dependency-groups"]
    extras = PROJECT["optional-dependencies"]
    asked = [
        Requirement(text)
        for part in (
            PROJECT["dependencies"],
            *(extras[name] for name in ("chainer", "lab", "demo")),
            *groups.values(),
        )
        for text in part
    ]

    for requirement in asked:
        for pin in pins[requirement.name.lower().replace("_", "-")]:
            version = next(iter(pin.specifier)).version
            assert requirement.specifier.contains(version), f"{pin} does not satisfy {requirement}"


def test_a_notebook_in_the_environment_of_make_can_install_a_package():
    made = re.findall(r"\$\(UV\) venv [^\n]*", (ROOT / "Makefile").read_text(encoding="utf-8"))

    assert made
    assert all(" --seed " in one for one in made)  # %pip runs the pip of the environment


def test_the_build_constraint_is_the_same_wherever_it_is_said():
    constraints = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()

    assert set(PYPROJECT["tool"]["uv"]["build-constraint-dependencies"]) <= set(constraints)


def test_constraints_name_no_file_host_or_option():
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()

    assert [line for line in lines if line.startswith("-") or "@" in line or "://" in line] == []


def test_the_readme_is_the_long_description_once_there_is_one():
    if not (ROOT / "README.md").exists():
        pytest.skip("no README yet")

    assert PROJECT.get("readme") == "README.md"


def test_the_version_is_the_same_in_the_extension():
    package = json.loads((ROOT / "extension" / "package.json").read_text(encoding="utf-8"))

    assert package["version"] == workbench.__version__


def test_the_distribution_has_one_name():
    assert {DISTRIBUTION, OURS, OWN} == {PROJECT["name"]}


@pytest.mark.parametrize("folder", ["extension", "extension/ui-tests"])
def test_yarn_gets_no_host(folder):
    files = (ROOT / folder / name for name in (".yarnrc.yml", "package.json", "yarn.lock"))

    found = re.findall(r"\S*(?:://|Registry|archiveUrl)\S*", "".join(map(Path.read_text, files)))
    assert found == []


def test_no_committed_file_names_a_package_registry():
    hosts = REGISTRIES | configured_hosts()

    found = [
        f"{name}: {host}" for name, text in committed().items() for host in hosts if host in text
    ]
    assert found == []


def test_no_committed_file_names_a_path_of_somebodys_machine():
    places = [*committed().items()]

    found = [
        f"{name}: {match.group()}" for name, text in places for match in HOME_FOLDER.finditer(text)
    ]
    found += [name for name, text in places if str(ROOT) in text]
    assert found == []


def test_every_make_command_in_the_readme_is_a_target():
    readme = ROOT / "README.md"
    if not readme.exists():
        pytest.skip("no README yet")
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.M))

    named = set(re.findall(r"(?:^\s*\$?\s*|`)make ([a-z-]+)", readme.read_text(), re.M))
    assert named - targets == set()


def test_every_suppression_in_the_code_has_a_reason():
    assert [
        f"{name}:{number}: {line.strip()}"
        for name, text in committed().items()
        if name.endswith(".py") and name != "tests/test_packaging.py"
        for number, line in enumerate(text.splitlines(), 1)
        if unreasoned(line)
    ] == []


@pytest.mark.parametrize(
    "end", ["noqa", "noqa  # registers it", "noqa: F401", "type: ignore", "type: ignore[misc]"]
)
def test_a_suppression_without_reason_or_code_is_found(end):
    assert unreasoned(f"import this  # {end}")


@pytest.mark.parametrize(
    "end",
    [
        "noqa: F401  # registers the magics",
        "noqa: F401, E402 - registers the magics",
        "type: ignore[misc]  # traitlets has no annotations",
    ],
)
def test_a_suppression_with_code_and_reason_passes(end):
    assert not unreasoned(f"import this  # {end}")


def unreasoned(line: str) -> bool:
    return bool(SUPPRESSION.search(line)) and not REASONED.search(line)


def test_every_suppression_in_the_extension_has_a_reason():
    assert [
        f"{name}:{number}: {line.strip()}"
        for name, text in committed().items()
        if name.endswith((".ts", ".tsx", ".js", ".mjs", ".css"))
        for number, line in enumerate(text.splitlines(), 1)
        if FRONT_SUPPRESSION.search(line) and not FRONT_REASONED.search(line)
    ] == []


@pytest.mark.parametrize(
    ("line", "passes"),
    [
        ("// @ts-ignore", False),
        ("// @ts-expect-error TS2345", False),
        ("/* eslint-disable */", False),
        ("// prettier-ignore", False),
        ("// @ts-expect-error: its types lack this option", True),
        ("// prettier-ignore -- a table reads better in columns", True),
    ],
)
def test_a_suppression_in_the_extension_passes_with_a_reason(line, passes):
    assert FRONT_SUPPRESSION.search(line)
    assert bool(FRONT_REASONED.search(line)) is passes


def test_every_exemption_in_pyproject_has_a_reason():
    lines = (ROOT / "pyproject.toml").read_text(encoding="utf-8").splitlines()

    assert [line for line in exemptions(lines) if not re.search(r"  # \S.*\w{4}", line)] == []


OPENS = re.compile(r'(?:extend-)?(?:ignore|exclude|filterwarnings)\b.* = \[|module = |"[^"]+" = \[')
ALONE = re.compile(
    r'(?:extend-)?(?:ignore|exclude) = \["|module = "|"[^"]+" = \["|\w+ = false|\w+_exclude = \["'
)


def exemptions(lines: list[str]) -> list[str]:
    """Give the lines that take something out of a check."""
    inside, found = False, []
    for line in lines:
        code = line.partition("  #")[0].rstrip()
        if ALONE.match(line):
            found.append(line)
        elif OPENS.match(line):
            inside = code.endswith("[")
        elif code == "]":
            inside = False
        elif inside and code.strip() != '"error",':
            found.append(line)
    return found


def test_an_exemption_without_a_reason_is_found():
    lines = [
        "ignore = [",
        '    "D105",',
        '    "D107",  # said by the class',
        "]",
        'select = ["D1"]',
    ]

    assert exemptions(lines) == lines[1:3]
    assert exemptions(['"tests/**" = ["D"]']) == ['"tests/**" = ["D"]']
