"""Asynchronous code runs in cells and scripts, though the engine's loop is in the same thread."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import threading

import pytest

from workbench.engine import asyncio_support

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


@pytest.mark.parametrize(
    "create",
    ["asyncio.create_task(main())", "asyncio.get_running_loop().create_task(main())",
     "asyncio.ensure_future(main())", "asyncio.gather(main())", "f()"],
)  # fmt: skip
def test_a_task_that_nothing_awaits_works_after_the_cells_own_lines(
    in_engine, printed, create
) -> None:
    f = "def f():\n    return asyncio.create_task(main())\n"

    assert in_engine(f"{MAIN}{f}task = {create}\nprint('first')").state == "finished"

    assert printed() == "first\nasync fine\n"


def test_a_callback_works_after_the_cells_own_lines(in_engine, printed) -> None:
    in_engine("import asyncio\nl = asyncio.get_running_loop()\nh = l.call_soon(print, 'called')")

    assert printed() == "called\n"


def test_a_loop_may_be_started_beside_tasks(in_engine, printed) -> None:
    in_engine(MAIN + "t = asyncio.create_task(main())\nasyncio.run(main())\nprint('then')")

    assert printed() == "async fine\nthen\nasync fine\n"


def test_a_task_that_takes_longer_is_paused_until_a_cell_awaits(
    in_engine, shell, capsys, monkeypatch
) -> None:
    monkeypatch.setattr(asyncio_support, "SETTLE_SECONDS", 0.01)
    create = "t = asyncio.create_task(later(), name='mine')"
    in_engine(f"import asyncio\nasync def later():\n    await asyncio.sleep(0.1)\n{create}")

    assert not shell.user_ns["t"].done()
    assert "'mine' of this cell is paused" in capsys.readouterr().err
    in_engine("await t")
    assert shell.user_ns["t"].done()
    assert not capsys.readouterr().err


def test_the_tasks_of_a_cell_that_fails_are_cancelled(in_engine, shell) -> None:
    in_engine("import asyncio\nt = asyncio.create_task(asyncio.sleep(100))\n1 / 0")

    assert shell.user_ns["t"].cancelled()


def test_an_error_in_a_task_that_nothing_awaits_is_shown(in_engine, caplog) -> None:
    in_engine("import asyncio\nasync def fall():\n    1 / 0\nt = asyncio.create_task(fall())")

    assert "of this cell, which nothing awaits, failed" in caplog.text
    assert "ZeroDivisionError" in caplog.text


def test_a_task_that_reaches_the_end_of_a_stopped_run_stops_it(in_engine) -> None:
    ending = in_engine(
        "import asyncio\nfrom workbench.engine.boundary import RunStopped\n"
        "async def step():\n    raise RunStopped\nt = asyncio.create_task(step())"
    )

    assert (ending.state, ending.error) == ("stopped", "")


def test_no_loop_is_offered_outside_of_a_cell_nor_in_its_threads(in_engine, printed) -> None:
    in_engine(
        "import asyncio, threading\ndef look():\n"
        "    try:\n        asyncio.get_running_loop()\n"
        "    except RuntimeError:\n        print('none')\n"
        "t = threading.Thread(target=look)\nt.start()\nt.join()"
    )

    with pytest.raises(RuntimeError):
        asyncio.get_running_loop()
    assert printed() == "none\n"


def test_an_error_in_awaited_code_begins_at_the_users_line(in_engine) -> None:
    ending = in_engine("async def fall():\n    1 / 0\nawait fall()")

    assert ending.error == "ZeroDivisionError: division by zero"
    assert (
        ending.traceback.splitlines()[1]
        == '  File "<cell of run 260101-000000-arun>", line 4, in <module>'
    )


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
