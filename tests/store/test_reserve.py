"""The reserve is there while there is room, and given up when something has to go."""

from __future__ import annotations

from workbench.store.reserve import RESERVE_NAME, RESERVE_NBYTES, give_up_reserve, keep_reserve


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
    program = """
from pathlib import Path
from workbench.errors import StoreFull
from workbench.store import Store
from workbench.store.reserve import give_up_reserve, keep_reserve
from workbench.requests.cluster import ask_down

store = Store("store.sqlite3")
store.wish_cluster("lab", up=True, ranks=2)
keep_reserve(store.path)
with open("ballast", "wb", buffering=0) as ballast:
    try:
        while ballast.write(bytes(4096)):
            pass
    except OSError:
        pass
try:
    for number in range(100):
        store.put_setup("lab", f"cell {number}", "x" * 5000)
except StoreFull:
    print("full")
ask_down(store, cluster="lab")
print(store.cluster_wish("lab").up, Path("reserve").exists())
Path("ballast").unlink()
keep_reserve(store.path)
print(Path("reserve").exists())
"""

    answer = on_disk(program, size="12m")

    assert answer.stdout.split() == ["full", "False", "False", "True"], answer.stderr


def test_a_small_disk_is_not_made_fuller(on_disk) -> None:
    program = """
from pathlib import Path
from workbench.store import Store
from workbench.store.reserve import keep_reserve

keep_reserve(Store("store.sqlite3").path)
print(Path("reserve").exists())
"""

    assert on_disk(program, size="4m").stdout == "False\n"
