"""Samples in columns are the same sequence as samples one by one."""

from __future__ import annotations

from workbench.core.run.rank_protocol import Batch, Sample, Samples, decode_message, encode

ROWS = (
    Sample("loss", 1, 10.0, 0.5),
    Sample("accuracy", 1, 10.0, 0.25),
    Sample("loss", 2, 11.0, 0.4),
)


def test_columns_have_the_samples_in_order() -> None:
    columns = Samples.of(ROWS)

    assert columns == ROWS
    assert [*columns] == [*ROWS]
    assert [columns[at] for at in (0, 1, -1)] == [ROWS[0], ROWS[1], ROWS[2]]
    assert columns[1:] == ROWS[1:]
    assert (len(columns), len(Samples.of(()))) == (3, 0)
    assert columns != ROWS[:2]
    assert columns.names == ("loss", "accuracy")
    assert Samples.of(columns) is columns


def test_columns_arrive_as_they_were_sent() -> None:
    batch = Batch("260101-000000-arun", 0, 1, ROWS)

    arrived = decode_message(encode(batch))

    assert isinstance(arrived, Batch)
    assert arrived.samples == ROWS
    assert encode(arrived) == encode(batch)
