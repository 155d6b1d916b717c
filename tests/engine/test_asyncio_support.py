"""Asynchronous code runs in cells and scripts, though the engine's loop is in the same thread."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import threading

import pytest

MAIN = "import asyncio\nasync def main():\n    await asyncio.sleep(0)\n    print('async fine')\n"


@pytest.fixture
def in_engine(perform):
    """Perform within a running event loop, as an engine does."""

    def within(source: str, **changes: object):
        async def engine():
            ending = perform(source, **changes)
            assert asyncio.get_running_loop() is not None
            return ending

        with contextlib.closing(asyncio.new_event_loop()) as loop:
            return loop.run_until_complete(engine())

    return within


def test_a_cell_and_a_script_may_start_a_loop(in_engine, printed, script) -> None:
    in_engine(MAIN + "asyncio.run(main())")
    assert printed() == "async fine\n"


def test_a_script_may_start_a_loop(in_engine, printed, script) -> None:
    in_engine(MAIN + "asyncio.run(main())", path=script)
    assert printed() == "async fine\n"


def test_a_script_in_the_old_style_finds_a_loop(in_engine, printed, script) -> None:
    in_engine(MAIN + "asyncio.get_event_loop().run_until_complete(main())", path=script)

    assert printed() == "async fine\n"


def test_a_cell_may_await(in_engine, printed, shell) -> None:
    in_engine(
        MAIN + "async def four():\n    return 4\nx = await four()\nawait main()\nawait four()"
    )

    assert printed() == "async fine\n4\n"
    assert shell.user_ns["x"] == 4


def test_what_is_bound_to_the_loop_can_be_used_in_the_next_cell(in_engine, printed) -> None:
    in_engine("import asyncio\nq = asyncio.Queue()\nawait q.put(1)\nf = asyncio.Future()")

    in_engine("f.set_result(2)\nprint(await q.get() + await f)")

    assert printed() == "3\n"


def test_tasks_that_a_cell_leaves_are_cancelled(in_engine, shell) -> None:
    in_engine("import asyncio\nt = asyncio.create_task(asyncio.sleep(100))\nawait asyncio.sleep(0)")

    assert shell.user_ns["t"].cancelled()


def test_an_error_in_awaited_code_begins_at_the_users_line(in_engine) -> None:
    ending = in_engine("async def fall():\n    1 / 0\nawait fall()")

    assert ending.error == "ZeroDivisionError: division by zero"
    assert ending.traceback.splitlines()[1] == '  File "<cell of run a-run>", line 4, in <module>'


def test_an_interrupt_leaves_an_await_at_the_users_line(in_engine) -> None:
    arguments = threading.get_ident(), signal.SIGINT
    timer = threading.Timer(0.2, signal.pthread_kill, arguments)
    timer.start()

    ending = in_engine("import asyncio\nx = 1\nawait asyncio.sleep(100)")

    timer.join()
    assert (ending.state, ending.error) == ("stopped", "interrupted")
    assert "line 4, in <module>" in ending.traceback


def test_a_loop_that_a_cell_closed_is_replaced(in_engine, printed) -> None:
    in_engine("import asyncio\nasyncio.get_event_loop_policy().get_event_loop().close()")

    in_engine(MAIN + "await main()")

    assert printed() == "async fine\n"
