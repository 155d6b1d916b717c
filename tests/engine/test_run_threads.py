"""What a thread prints and reports belongs to the run in which it began, or got its work."""

from __future__ import annotations

import io
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.pool import ThreadPool

import pytest

import workbench
from workbench.core.run.rank_protocol import decode_message
from workbench.engine.entrypoints import _POOL_METHODS, follow_threads
from workbench.engine.output.output_capture import LEFT_OUT, OutputStream
from workbench.engine.reporting.run_log import RunLog
from workbench.engine.run_context import RunContext, current, set_current


@pytest.fixture(autouse=True)
def followed(monkeypatch) -> None:
    """Follow threads for as long as a test lasts."""
    monkeypatch.setattr(threading.Thread, "start", threading.Thread.start)
    monkeypatch.setattr(ThreadPoolExecutor, "submit", ThreadPoolExecutor.submit)
    for name in _POOL_METHODS:
        monkeypatch.setattr(ThreadPool, name, getattr(ThreadPool, name))
    follow_threads()


@pytest.fixture
def begin(tmp_path) -> Iterator[Callable[[str], RunContext]]:
    """Begin a run, in place of the one before."""

    def begin(name: str) -> RunContext:
        run = RunContext(RunLog(f"260101-000000-{name[:4]}", 0, tmp_path / f"{name}.log"))
        set_current(run)
        return run

    yield begin
    set_current(None)


def printed_by(run: RunContext) -> str:
    return "".join(chunk.text for chunk in decode_message(run.log.take()).chunks)


class Waiting(threading.Thread):
    """A thread that does something when it may, and then ends."""

    def __init__(self, act: Callable[[], object]) -> None:
        super().__init__()
        self.act, self.may = act, threading.Event()

    def run(self) -> None:
        self.may.wait()
        self.act()

    def act_now(self) -> None:
        self.may.set()
        self.join()


def test_a_thread_prints_into_the_run_that_began_it(begin) -> None:
    stream = OutputStream("stdout", io.StringIO())
    thread = Waiting(lambda: print("mine", file=stream))
    first = begin("first")
    thread.start()

    thread.act_now()

    assert printed_by(first) == "mine\n"


def test_the_next_run_leaves_out_what_it_prints_and_says_so_once(begin) -> None:
    stream = OutputStream("stdout", io.StringIO())
    threads = [Waiting(lambda: print("late", file=stream)) for _ in range(2)]
    begin("first")
    for thread in threads:
        thread.start()
    second = begin("second")

    for thread in threads:
        thread.act_now()
    print("own", file=stream)

    assert printed_by(second) == f"{LEFT_OUT}own\n"


def test_a_thread_that_another_thread_starts_belongs_to_the_same_run(begin) -> None:
    found = []
    inner = Waiting(lambda: found.append(current()))
    outer = Waiting(inner.start)
    begin("first")
    outer.start()
    begin("second")

    outer.act_now()
    inner.act_now()

    assert found == [None]


def test_a_value_that_such_a_thread_reports_is_not_the_next_runs(begin) -> None:
    thread = Waiting(lambda: workbench.report(loss=1.0))
    begin("first")
    thread.start()
    second = begin("second")

    thread.act_now()

    assert second.iteration == 0
    assert not second.own_names


@pytest.mark.parametrize(
    ("make", "give"),
    [
        (lambda: ThreadPoolExecutor(1), lambda pool, f: pool.submit(f, 0).result()),
        (lambda: ThreadPoolExecutor(1), lambda pool, f: [*pool.map(f, [0])]),
        (lambda: ThreadPool(1), lambda pool, f: pool.map(f, [0])),
        (lambda: ThreadPool(1), lambda pool, f: pool.apply(f, (0,))),
        (lambda: ThreadPool(1), lambda pool, f: [*pool.imap(f, [0])]),
        (lambda: ThreadPool(1), lambda pool, f: pool.starmap(f, [(0,)])),
    ],
)
def test_a_pool_that_stays_works_for_the_run_that_uses_it(begin, make, give) -> None:
    found = []
    begin("first")
    with make() as pool:
        give(pool, lambda _: None)
        second = begin("second")
        give(pool, lambda _: found.append(current()))

    assert found == [second]


def test_a_thread_that_began_outside_of_a_run_sees_the_present_one(begin) -> None:
    found = []
    thread = Waiting(lambda: found.append(current()))
    thread.start()
    first = begin("first")

    thread.act_now()

    assert found == [first]
