"""A measurement is shown as a picture, in tables and in sentences that name the slowest link."""

from __future__ import annotations

import json
import time
from dataclasses import replace

import pytest

from workbench.core.performance.bandwidth import (
    RESULT_STREAM,
    BandwidthSurvey,
    Exchange,
    Measurement,
    Pair,
    Rate,
    measurement_json,
)
from workbench.core.run.rank_protocol import Batch, Chunk
from workbench.pages.protocol import RUN_TYPE
from workbench.view.pictures.figure import new_figure, write_picture
from workbench.view.pictures.survey_picture import (
    _choose_drawings,
    _heat_map,
    can_draw,
    describe,
    draw_survey,
)
from workbench.view.run_output import kept_bundle
from workbench.view.tables.survey import find_previous, remarks, tables

GBIT = 1e9 / 8
NODES = ("node1", "node2", "node3")
DAY = 86_400.0


def measured(slow: float = 1.0, at: float = 1000.0, nodes=NODES) -> Measurement:
    """Links of 1 Gbit/s, but for those of node 3."""
    pairs = tuple(
        Pair(a, b, 5e-5, (slow if "node3" in (a, b) else 1.0) * GBIT)
        for a in nodes
        for b in nodes
        if a != b
    )
    exchanges = (
        Exchange(1000, 1e-4, 3, "Open MPI's own choice"),
        Exchange(1000, 2e-4, 3, "workbench", "ring"),
    )
    rates = (Rate("node1", "disk write", 2e8), Rate("node1", "between two ranks", 4e9, 2e-6))
    survey = BandwidthSurvey(at, nodes, pairs, exchanges if nodes else (), rating=1.44 * GBIT)
    return Measurement(survey, 3, 40.0, rates, ("256 MB: it would have taken 99 s each time.",))


@pytest.fixture
def keep(supervisor):
    def write(run, found: Measurement) -> None:
        chunk = Chunk(RESULT_STREAM, 0.0, measurement_json(found))
        supervisor.reports.add_batches([Batch(run.id, 0, 1, chunks=(chunk,))])

    return write


def test_the_slowest_link_is_named_first() -> None:
    found = measured(0.3)

    said = remarks(found, None, 1000.0)

    assert said[0] == "The slowest link is from node1 to node3: 0.3 Gbit/s, 50 µs."
    assert any(sentence.startswith("Node node3 is slow") for sentence in said)
    assert said[-1].startswith("Left out: 256 MB")


def test_a_node_that_lost_half_its_bandwidth_is_named_with_the_day() -> None:
    now = time.mktime((2026, 11, 20, 12, 0, 0, 0, 0, -1))  # a Friday
    earlier = measured(1.0, now - 3 * DAY).survey

    said = remarks(measured(0.5, now), earlier, now)

    assert "Node node3 lost half its bandwidth since Tuesday: 0.5 of 1 Gbit/s." in said


def test_what_has_not_changed_is_said_too() -> None:
    said = remarks(measured(at=2000.0), measured().survey, 2000.0)

    assert any(sentence.startswith("Nothing has changed since") for sentence in said)


def test_figures_are_in_tables() -> None:
    links, exchanges, rates = (table for _, table in tables(measured(0.3)))

    assert links.headers == ("from \\ to", *NODES)
    assert links.rows[0] == ("node1", "–", "1", "0.3")
    assert exchanges.rows[1] == ("1 kB", "workbench: ring", "0.200", "0.04", "0.0533")
    assert rates.rows[0] == ("node1", "between two ranks", "4 GB/s, 2 µs")
    assert rates.rows[1] == ("node1", "disk write", "200 MB/s")


def test_of_many_nodes_the_slowest_links_are_listed() -> None:
    nodes = tuple(f"node{number}" for number in range(20))

    _, links = tables(measured(0.3, nodes=nodes))[0]

    assert len(links.rows) == 8
    assert all("node3" in row for row in links.rows)


def test_a_measurement_stays_as_picture_words_and_tables(store, queue, keep) -> None:
    run = queue("bandwidth")
    keep(run, measured(0.3))

    bundle = kept_bundle(store, store.run(run.id), 1000.0)

    assert bundle["image/png"].startswith("iVBORw0KGgo")
    assert 'alt="links between 3 nodes from 0.3 (node1 to node3)' in bundle["text/html"]
    assert "The slowest link is from node1 to node3" in bundle["text/plain"]
    assert "workbench: ring" in bundle["text/plain"]


def test_a_page_that_followed_it_draws_it_by_itself(store, queue, keep) -> None:
    run = queue("bandwidth")
    keep(run, measured(0.3))

    # Else the page would leave the run, and the kernel write into a file that is open there.
    kept = kept_bundle(store, store.run(run.id), 1000.0)[RUN_TYPE]

    assert (kept["run"], kept["saved"]["run"]["id"]) == (run.id, run.id)
    assert "node1" in kept["saved"]["survey"]["description"]
    assert "picture" not in kept["saved"]["survey"] or not kept["saved"]["survey"]["picture"]
    assert kept["saved"]["survey"]["remarks"][0].startswith("The slowest link is from node1")
    assert json.dumps(kept, allow_nan=False)


def test_it_is_compared_with_what_was_measured_before(store, queue, keep) -> None:
    for name, found in (("old", measured()), ("else", measured(at=1500.0, nodes=("x", "y")))):
        keep(queue(name), found)
    now = measured(0.5, at=2000.0)

    assert find_previous(store, "default", now) == measured().survey
    assert find_previous(store, "default", measured()) is None


@pytest.mark.parametrize("suffix", ["png", "svg"])
def test_the_picture_can_be_a_file(tmp_path, suffix) -> None:
    path = tmp_path / f"links.{suffix}"

    write_picture(path, draw_survey(measured(0.3)))

    assert path.stat().st_size > 1_000


def test_ranks_of_one_node_have_exchanges_alone() -> None:
    found = measured(nodes=("here",))

    assert can_draw(found)
    assert describe(found).startswith("allreduce by Open MPI's own choice reaches 0.107 Gbit/s")
    assert "no link to measure" in remarks(found, None, 0.0)[0]


def test_without_a_figure_there_is_no_picture() -> None:
    found = replace(measured(), survey=BandwidthSurvey(0.0, ("here",), ()))

    assert not can_draw(found)


def test_two_nodes_need_no_map() -> None:
    found = measured(nodes=("node1", "node3"))

    assert [draw.__name__ for draw in _choose_drawings(found.survey)] == ["_curves"]
    assert not can_draw(replace(found, survey=replace(found.survey, exchanges=())))


@pytest.mark.parametrize(("slow", "least"), [(0.3, 0.3), (0.99, 0.75)])
def test_colours_tell_links_apart_that_differ_by_more_than_noise(slow, least) -> None:
    axes = new_figure(4, 3, 80).add_subplot()

    _heat_map(axes, measured(slow).survey)

    assert axes.get_images()[0].get_clim() == pytest.approx((least, 1.0))
