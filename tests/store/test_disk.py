"""The reserve exists while there is room, and is released for a deletion."""

from __future__ import annotations

from workbench.store.disk import RESERVE_NAME, RESERVE_NBYTES, give_up_reserve, keep_reserve


def test_the_reserve_is_made_once_and_takes_room(store) -> None:
    keep_reserve(store.path)
    made = store.path.with_name(RESERVE_NAME).stat()

    keep_reserve(store.path)

    again = store.path.with_name(RESERVE_NAME).stat()
    assert made.st_size == RESERVE_NBYTES
    assert made.st_blocks * 512 >= RESERVE_NBYTES
    assert again.st_mtime_ns == made.st_mtime_ns
    assert made.st_mode & 0o777 == 0o600


def test_it_is_given_up_once(store) -> None:
    keep_reserve(store.path)

    assert give_up_reserve(store.path)
    assert not give_up_reserve(store.path)


def test_a_wish_to_be_gone_is_written_on_a_full_disk(on_disk) -> None:
    answer = on_disk("reserved.py", size="12m")

    assert answer.stdout.split() == ["full", "False", "False", "True"], answer.stderr


def test_a_small_disk_is_not_made_fuller(on_disk) -> None:
    assert on_disk("small_disk.py", size="4m").stdout == "False\n"
