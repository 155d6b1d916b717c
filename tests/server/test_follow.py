"""A page follows a run over its WebSocket: nothing is lost, repeated, or piled up."""

from __future__ import annotations


async def test_a_page_hears_of_the_run_and_then_its_curves(follow, run) -> None:
    run.report(range(10))

    async with follow(run.id) as page:
        hello, frame = await page.hear_a("hello"), await page.hear_a("frame")

    assert (hello["run"]["id"], hello["run"]["state"]) == (run.id, "running")
    assert frame.series["loss"]["x"].tolist() == list(range(10))


async def test_a_run_that_has_ended_is_told_and_the_connection_closed(follow, run) -> None:
    run.report(range(10))
    run.end()

    async with follow(run.id) as page:
        closed = await page.hear_out()

    assert (page.heard[-1], closed[0]) == ("end", 1000)
    assert len(page.curves["loss"]) == 10
