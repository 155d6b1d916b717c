"""A provider in a package of its own is chosen, asked, priced and shown by its entry point."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.packages.install import installed_package
from workbench.core.fleet import provider
from workbench.core.fleet.model import FleetWish
from workbench.pages.estimate import find_offers
from workbench.pages.nodes_form import form_message
from workbench.pages.requests import FormRequest
from workbench.requests.cloud_queries import ask_leftovers
from workbench.store import Store
from workbench.view.tables.nodes import fleet_message, fleet_of

pytestmark = [pytest.mark.mpi, pytest.mark.timeout(240)]

NAME = "outside"
UP = ("up", "--provider", "crates", "--nodes", "2", "--yard", "west", "--cluster", NAME)


def forget() -> None:
    """Have the installed providers looked up again."""
    for name in ("_find_installed", "find_provider", "known_providers"):
        getattr(provider, name).cache_clear()


@pytest.fixture(scope="module", autouse=True)
def crates(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with installed_package("crates", tmp_path_factory.mktemp("site")):
        forget()
        yield
    forget()


def workbench(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "workbench.cli", *words], capture_output=True, text=True, check=False
    )


def test_its_nodes_are_priced_started_shown_and_deleted(tmp_path: Path) -> None:
    script = tmp_path / "hello.py"
    script.write_text("print('hello')\n")
    began = workbench(*UP, "--yes")
    state = workbench("status", "--cluster", NAME)
    ran = workbench("run", "--cluster", NAME, "--ranks", "2", str(script))
    with Store() as store:
        wish = store.cluster_wish(NAME)
        shown = fleet_message(fleet_of(store, wish, 2, 0.0))
    ended = workbench("delete", "--cluster", NAME)

    assert began.returncode == 0, began.stderr
    assert "crate in west" in began.stdout
    assert "2 ranks on 2 of 2 nodes" in began.stdout
    assert "crates: 2 of 2 nodes, $0.50/h now" in state.stdout
    assert ran.returncode == 0, ran.stderr
    assert (shown.provider_label, shown.has_nodes, shown.price) == ("crates", True, 0.5)
    assert ended.returncode == 0, ended.stderr
    assert "no resource of it is left. It cost $" in ended.stdout
    assert ask_leftovers(FleetWish("crates"), NAME) == ()


def test_the_form_asks_what_it_declares_and_shows_its_price() -> None:
    asked = FormRequest(provider="crates", values={"yard": "west"})
    with Store() as store:
        place = next(one for one in form_message(store, "form").places if one.name == "crates")

        found = find_offers(store, "form", asked)

    labels = {one.name: one.label for one in place.fields}
    assert labels["yard"] == "Yard"
    assert "image" not in labels
    assert "Total $0.50/h at current prices for 2 nodes of crate in west" in found.says
    assert found.refusal == ""


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("--provider crates --yard north", "There is no yard 'north'; choose one of east, west."),
        ("--provider crates --set yard=no", "There is no yard 'no'; choose one of east, west."),
        ("--provider crates --set roof=flat", "crates has no setting 'roof'; it has: yard."),
        ("--ec2 --yard west", "--yard does not apply to EC2; leave it out."),
        ("--rehearsal --yard north", "There is no yard 'north'; choose one of east, west."),
        ("--yard west", "--yard is about nodes; name their provider"),
    ],
)
def test_its_own_settings_are_checked(options: str, said: str) -> None:
    refused = workbench("up", *options.split())

    assert refused.returncode == 2
    assert refused.stderr.startswith(said)


def test_its_setting_is_in_the_help_the_job_file_and_the_page_of_options(tmp_path: Path) -> None:
    job, page = tmp_path / "job.toml", "docs/reference.py"
    job.write_text('script = "train.py"\nprovider = "crates"\nnodes = 1\nyard = "north"\n')
    rows = f"import runpy; print(*runpy.run_path({page!r})['fields'](), sep='\\n')"

    shown = workbench("up", "--help").stdout
    refused = workbench("run", str(job))
    made = subprocess.run([sys.executable, "-c", rows], capture_output=True, text=True, check=True)

    assert "--yard TEXT" in shown
    assert "Where the crates are." in shown
    assert "line 4: There is no yard 'north'; choose one of east, west." in refused.stderr
    assert '| `yard` | Where the crates are. | a text | `"east"` |' in made.stdout


def test_a_stored_provider_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with Store() as store:
        store.wish_cluster("gone", up=False, ranks=0, fleet=FleetWish("crates"))
    monkeypatch.delenv("PYTHONPATH")

    refused = workbench("resize", "--cluster", "gone", "--nodes", "3")

    assert refused.returncode == 2
    assert refused.stderr.startswith(
        "Provider 'crates' is not installed; install the package that has it, or choose one of "
        "local, hosts, ec2, rehearsal, slurm."
    )
