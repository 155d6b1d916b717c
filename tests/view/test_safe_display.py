"""What ranks display is sent in types that a page may trust, and is in the result with its text."""

from __future__ import annotations

import pytest

from workbench.core.run.display import CLEAR, DISPLAY, Display
from workbench.core.run.rank_protocol import Batch, Chunk
from workbench.pages.feed import Feed
from workbench.pages.protocol import DisplayedMessage
from workbench.view.run_output import kept_bundle
from workbench.view.transcript import notebook_bundle, static_html

SVG = '<svg onload="alert(1)"></svg>'


@pytest.mark.parametrize(
    ("data", "made"),
    [
        (
            {"text/plain": "<Figure>", "image/png": "AAAA"},
            {"text/plain": "<Figure>", "image/png": "AAAA"},
        ),
        ({"text/html": "<b onclick=x>a</b><script>x</script>"}, {"text/html": "<b>a</b>"}),
        ({"text/markdown": "# *a*\n\n- b < c"}, {"text/markdown": "# *a*\n\n- b < c"}),
        ({"text/markdown": "<img src=x>"}, {"text/plain": "<img src=x>"}),
        ({"text/markdown": "[a](java&#115;cript:x)"}, {"text/plain": "[a](java&#115;cript:x)"}),
        ({"text/markdown": "[a](javascript\\:x)"}, {"text/plain": "[a](javascript\\:x)"}),
        ({"text/markdown": "![a](//host/x)", "text/plain": "words"}, {"text/plain": "words"}),
        ({"application/json": '{"a": [1]}'}, {"application/json": {"a": [1]}}),
        ({"application/json": "NaN"}, {"application/json": "NaN"}),
        ({"application/json": "[" * 100_000}, {"application/json": "[" * 100_000}),
        ({"text/latex": "$x$"}, {"text/latex": "$x$"}),
    ],
)  # fmt: skip
def test_a_notebook_gets_what_it_may_trust(data, made) -> None:
    assert notebook_bundle(data) == made


def test_a_drawing_becomes_an_image_in_which_nothing_runs() -> None:
    for made in (notebook_bundle({"image/svg+xml": SVG})["text/html"],
                 static_html({"image/svg+xml": SVG}, {})):  # fmt: skip
        assert made.startswith('<img alt="" src="data:image/svg+xml;base64,')
        assert "onload" not in made


def test_static_html_is_an_image_or_escaped_text() -> None:
    image = static_html(
        {"image/png": "AAAA", "text/plain": '"<b>'}, {"image/png": {"width": 3, "height": 4}}
    )

    assert image == (
        '<img alt="&quot;&lt;b&gt;" src="data:image/png;base64,AAAA" width="3" height="4" '
        'style="max-width: 100%">'
    )
    assert static_html({"text/latex": "<b>"}, {}) == "<pre>&lt;b&gt;</pre>"


@pytest.fixture
def shown(supervisor, queue):
    """A run of two ranks; each writes, displays and writes."""
    run = queue("fit")
    for rank in range(2):
        figure = {"text/plain": f"<Figure {rank}>", "image/png": "AAAA" if rank else "BBBB"}
        chunks = (
            Chunk("stdout", 0.0, "before\n"),
            Display(DISPLAY, 0.0, 1, figure),
            Chunk("stdout", 0.0, "after\n"),
        )
        supervisor.reports.add_batches([Batch(run.id, rank, 1, chunks=chunks)])
    return run


def test_the_result_has_what_ranks_displayed_in_order_with_their_text(store, shown) -> None:
    bundle = kept_bundle(store, shown, 10.0)

    html = bundle["text/html"]
    assert html.index("before") < html.index("base64,BBBB") < html.index("after")
    assert html.count("base64,AAAA") == html.count("base64,BBBB") == 1
    assert bundle["text/plain"].splitlines()[-4:] == [
        "ranks 0-1 | before", "rank 0 | <Figure 0>", "rank 1 | <Figure 1>", "ranks 0-1 | after",
    ]  # fmt: skip


def test_a_page_gets_what_is_displayed_among_what_is_written(store, shown) -> None:
    pieces = Feed(store, shown.id).output(0).pieces

    data = {"text/plain": "<Figure 0>", "image/png": "BBBB"}
    figure = DisplayedMessage(place=2, data=data, metadata={})
    assert pieces[1] == (0, "display", "<Figure 0>\n", figure)
    assert [piece[:2] for piece in pieces[3:]] == [(1, "stdout"), (1, "display"), (1, "stdout")]


def test_what_a_rank_cleared_is_in_no_result(supervisor, store, shown) -> None:
    after = (Display(CLEAR, 0.0), Chunk("stdout", 0.0, "new\n"))
    supervisor.reports.add_batches([Batch(shown.id, 1, 2, chunks=after)])

    html = kept_bundle(store, shown, 10.0)["text/html"]

    assert "base64,AAAA" not in html
    assert "base64,BBBB" in html
    assert Feed(store, shown.id).output(0).pieces[-2:] == (
        (1, "clear", ""),
        (1, "stdout", "new\n"),
    )
