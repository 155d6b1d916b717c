"""This process as one rank of one generation: it joins once, then executes many runs."""

from __future__ import annotations

import _thread
import contextlib
import faulthandler
import math
import os
import platform
import random
import resource
import signal
import socket
import sys
import threading
import time
import traceback
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn, TextIO

from mpi4py import MPI
from msgspec.structs import replace

from workbench.core.run.model import Assignment
from workbench.core.run.rank_protocol import Ending, Pulse
from workbench.core.run_id import run_and_attempt
from workbench.core.world.world import PORT_RANGE, RankFact, torch_environment
from workbench.engine.boundary import Edge, RunStopped
from workbench.engine.forked_children import ForkedChildren, end_forked
from workbench.engine.framework import frameworks, library_versions
from workbench.engine.measurement.node_emulation import host_name, node_of, slow_links
from workbench.engine.mpi_lifetime import lifetime
from workbench.engine.output.descriptor_capture import DescriptorCapture
from workbench.engine.output.output_capture import catch_up_by
from workbench.engine.own_gpu import find_gpus
from workbench.engine.reporting.channel import Address, Channel
from workbench.engine.reporting.run_log import RunLog, owners_only
from workbench.engine.run_context import RunContext, current, set_current
from workbench.engine.script_process import (
    await_end,
    drop_exits,
    end_by_signal,
    exit_process,
    join_threads,
    let_go,
    report_exits,
    run_exits,
)
from workbench.engine.snapshot.run_snapshots import RunSnapshots
from workbench.engine.stale_communicators import sentence
from workbench.engine.timing.mpi_calls import GenerationWorlds, is_revoked, watch
from workbench.engine.timing.thread_position import Sampler, is_in_package_import

_NEEDED = ("workbench", "workbench.engine.entrypoints", "workbench.engine.execution")


INTERFACES = Path("/proc/self/net/dev")

PORTS = 32
LOOPBACK = "127.0.0.1"
SETTLED_SECONDS = 600.0  # for a supervisor that is away
UNWINDING_SECONDS = 3.0
LONG_SECONDS = 5.0  # a rank that waits for longer reports its host's traffic
IMPORT_SECONDS = 0.02  # until an interrupt that an import has put off comes again


class Rank:
    """One rank of one generation.

    Args:
        generation: Its number.
        address: The supervisor's address.
        fault_tolerant: Whether the launcher requested ULFM from MPI.
        crash_folder: The folder for the Python stack of a crash; relative to the home directory.
        shell: The engine's IPython shell; None outside of an engine.
    """

    def __init__(
        self,
        generation: int,
        address: Address,
        *,
        fault_tolerant: bool,
        crash_folder: str,
        shell: Any = None,
    ) -> None:
        self.generation = generation
        self.number = MPI.COMM_WORLD.Get_rank()
        self.worlds = GenerationWorlds(fault_tolerant=fault_tolerant, on_abort=self._aborting)
        self._interruptible = self._interrupt_wanted = self._was_interrupted = False
        self._sampler, self._traffic = Sampler(), HostTraffic()
        self.run_name = ""
        """The name of the present run, or of the last one."""
        self._continued = set[str]()
        slow_links(MPI.COMM_WORLD)
        self._machines, self._leader, self._master = _place(MPI.COMM_WORLD)
        for one in frameworks():
            one.begin_world(alone=self._master == LOOPBACK)
        self._ports = _free_ports(MPI.COMM_WORLD) if _head() else ()
        folder = Path.home() / crash_folder
        self._crash_file = _watch_for_crashes(folder, generation, self.number)
        self._descriptors = DescriptorCapture(folder / f"words-{generation}-{self.number}")
        catch_up_by(self._gather)
        self._soundness = RankHealth(shell)
        engines = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)
        self._children = ForkedChildren([*filter(callable, engines), self._on_signal])
        self._channel = Channel(
            address,
            generation,
            self.number,
            pulse=self._pulse,
            stop_at=self._stop_at,
            interrupt=self._interrupt,
            save=self._save_soon,
            open_edge=self._open_edge,
            gather=self._gather,
            died=self._cut_off,
        )
        self._channel.open()
        report_exits(self._exiting)

    def fact(self, engine: int) -> RankFact:
        """Return the facts of this rank."""
        return RankFact(
            generation=self.generation,
            rank=self.number,
            host=host_name(),
            pid=os.getpid(),
            engine=engine,
            python=platform.python_version(),
            mpi=MPI.Get_library_version().split(",")[0].split("\n")[0].strip("\x00"),
            blas_threads=int(os.environ.get("OPENBLAS_NUM_THREADS", "0") or 0),
            versions=library_versions(),
        )

    def is_cancelled(self, run: str) -> bool:
        """Return whether the run was cancelled before it began here."""
        return self._channel.is_cancelled(run)

    def enter(self, assignment: Assignment) -> RunContext:
        """Begin a run: set up its world and its log, and make it the current one."""
        self._interrupt_wanted, wish = False, assignment.wish
        self.run_name = wish.name or wish.id
        # An earlier attempt on this world may still be sending its own log.
        attempt = f"-{assignment.attempt}" * (assignment.attempt > 1)
        path = Path(assignment.directory) / f"rank-{self.number}{attempt}.log"
        run = RunContext(RunLog(assignment.execution, self.number, path), leader=self._leader)
        run.log.outbox.begin()
        run.log.restarts = assignment.is_restart and not self.number
        run.is_restart = assignment.is_restart
        run.boundaries.asks_script = assignment.wish.restarts
        if assignment.continues:
            folder = Path(assignment.continues)
            run.edge = Edge(lambda execution: self._continue_as(run, execution, folder))
        if assignment.snapshots:
            run.snapshots = RunSnapshots(
                run.log,
                assignment.snapshots,
                run=wish.replays or wish.id,
                attempt=assignment.attempt,
                generation=self.generation,
                resumes=assignment.resume,
                begins_again=assignment.begins_again,
                insists=assignment.insists,
                replays=bool(wish.replays),
                edge=run.edge,
                losses=assignment.losses,
                lived=assignment.lived,
            )
        self._gather()  # earlier output does not belong to this run
        set_current(run)
        self._channel.carry(run.log)
        world = self.worlds.offer(assignment.ranks)
        if wish.is_process:
            drop_exits()
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            lifetime.begin_script(self.worlds.true, world.size)
        for one in frameworks():
            one.begin_run(world.size, is_script=wish.is_process)
        watch.seconds = watch.passed = 0.0
        # As torchrun does, so that init_process_group() needs no argument.
        port = self._master_port(assignment)
        run.world = torch_environment(
            self.number,
            self._machines[: world.size],
            self._master,
            port,
            gpus=len(find_gpus({**os.environ, **dict(assignment.environment)})),
        )
        os.environ.update(run.world)
        return run

    def _master_port(self, assignment: Assignment) -> int:
        """Return the port that all ranks choose for a run, without communication."""
        if not self._ports:
            return assignment.master_port
        return self._ports[zlib.crc32(assignment.execution.encode()) % len(self._ports)]

    def has_continued(self, execution: str) -> bool:
        """Return whether this rank has become one of an execution at the edge of its training."""
        return execution in self._continued

    def _continue_as(self, run: RunContext, execution: str, folder: Path) -> RunLog:
        """End the present execution here, and make the rest of the run's code another one's."""
        attempt = run_and_attempt(execution)[1]
        self._continued.add(execution)
        self._finish(run, Ending("finished", 0))
        log = RunLog(execution, self.number, folder / f"rank-{self.number}-{attempt}.log")
        log.fetching = run.log.fetching
        with self._descriptors.lock:
            run.edge, run.log = None, log
        self._channel.carry(run.log)
        if self._channel.is_cancelled(execution):
            raise RunStopped("stopped before it continued")
        return run.log

    def leave(self, run: RunContext, ending: Ending) -> None:
        """End a run; its log is sent until the supervisor has all of it."""
        if run.snapshots is not None:
            run.snapshots.close()  # what it reports belongs to the run
        # The ranks of a script run no other cell.
        flaw = "" if lifetime.is_script else self._soundness.flaw()
        self._finish(run, replace(ending, spoiled=flaw))
        set_current(None)
        self._descriptors.stay()
        self._channel.ring()

    def wind_up(self, run: RunContext, ending: Ending) -> Ending:
        """Do what a process does at its exit, as a part of its script's run; return how it ended.

        After an error the run is not kept open for long: the others wait for this rank.
        """
        is_cut = self._interrupt_wanted = False
        with self._interrupted_after(UNWINDING_SECONDS if ending.state == "failed" else math.inf):
            for step in (join_threads, run_exits, run.close, let_go):
                try:
                    with self.interruptible(), end_forked():
                        step()
                except KeyboardInterrupt:
                    is_cut, self._interrupt_wanted = True, False
                except BaseException:  # noqa: BLE001  # as Python, whose next step follows
                    traceback.print_exc()
        is_cut = is_cut and ending.state == "finished"
        return Ending("stopped", run.iteration, "interrupted") if is_cut else ending

    def end(self, run: RunContext, ending: Ending) -> NoReturn:
        """End this process after its script, once the supervisor has all of the run."""
        deadline = time.monotonic() + SETTLED_SECONDS
        while not run.log.settled and time.monotonic() < deadline:
            time.sleep(0.005)
        end_by_signal()
        if ending.state == "failed" or ending.error or self._was_interrupted:
            await_end()
        lifetime.finish()
        exit_process()

    def end_beside(self) -> NoReturn:
        """End this process with a script on lower ranks, which misses this one."""
        end_by_signal()
        lifetime.end_beside(self.worlds.true)
        exit_process()

    @contextlib.contextmanager
    def _interrupted_after(self, seconds: float) -> Iterator[None]:
        """Interrupt the body once if it takes longer."""
        interrupt = threading.Timer(seconds, self._interrupt_main)
        interrupt.daemon = True
        if math.isfinite(seconds):
            interrupt.start()
        try:
            yield
        finally:
            interrupt.cancel()

    def _finish(self, run: RunContext, ending: Ending) -> None:
        """Collect the output past ``sys.stdout``, then record how the run ended."""
        self._descriptors.pull_all(run.log.note, lambda: self._wait_while(run.log.holds_output))
        with self._descriptors.lock:
            run.log.finish(ending)

    def _gather(self) -> None:
        """Move the output past ``sys.stdout`` into the run, or else into mpiexec's log."""
        with self._descriptors.lock:
            run = current()
            if run is None:
                self._descriptors.forward()
            elif run.log.ending is None:
                self._descriptors.pull(run.log.note)

    @contextlib.contextmanager
    def interruptible(self) -> Any:
        """Let an interrupt raise KeyboardInterrupt in the body, and not elsewhere."""
        before = signal.signal(signal.SIGINT, self._on_signal)
        self._interruptible = True
        try:
            if self._interrupt_wanted:  # it came after the run's first message and before this
                raise KeyboardInterrupt
            yield
        finally:
            self._interruptible = False
            signal.signal(signal.SIGINT, before)

    def recover(self) -> bool:
        """Create new communicators after a failure; collective over the generation."""
        for one in frameworks():
            one.free(self.run_name)  # so that nothing in them is waited for
        self.pass_over()
        return self.worlds.recover(self.run_name)

    def note_own(self) -> None:
        """Note that what the engine executes is none of a user's."""
        self._soundness.note_own()

    def pass_over(self) -> None:
        """Leave what a run on lower ranks, which this one misses, leaves there too."""
        for one in frameworks():
            one.leave()

    def stale(self, error: BaseException) -> str:
        """Return the message for an error that is due to a communicator from before a failure."""
        worlds = self.worlds
        if said := next(filter(None, (one.stale(error) for one in frameworks())), ""):
            return said
        if not is_revoked(error) or not worlds.lost or worlds.revoked:
            return ""
        return sentence("A communicator that is used here", worlds.lost)

    def _on_signal(self, _: object = None, frame: FrameType | None = None) -> None:
        if not self._interruptible:
            return
        if is_in_package_import(frame):
            # The lock of a thread that is created otherwise may be held by what is interrupted.
            _thread.start_new_thread(self._signal_again, (current(),))
            return
        self._interruptible = False
        raise KeyboardInterrupt

    def _signal_again(self, run: RunContext | None) -> None:
        time.sleep(IMPORT_SECONDS)
        if self._interruptible and current() is run:
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    def _interrupt(self) -> None:
        """Free the main thread, whether it is in MPI or in Python; called by the channel."""
        self._interrupt_wanted = self._was_interrupted = True
        self.worlds.revoke()
        for one in frameworks():
            one.free(self.run_name)
        self._interrupt_main()

    def _interrupt_main(self) -> None:
        if self._interruptible:
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    def _open_edge(self, execution: str) -> None:
        run = current()
        if run is not None and run.edge is not None:
            run.edge.open(execution)

    def _stop_at(self, boundary: int, epoch: bool) -> None:
        if run := current():
            run.boundaries.stop_at(boundary, epoch=epoch)

    def _save_soon(self) -> None:
        if (run := current()) and run.snapshots is not None:
            run.snapshots.is_asked = True

    def _aborting(self, code: int, stack: str) -> None:
        """Report the aborting rank to the supervisor before all ranks end."""
        self._report_end(Ending("failed", error=f"MPI_Abort({code})"), stack)

    def _exiting(self, status: int, stack: str) -> None:
        """Report an exit by ``os._exit`` and its status to the supervisor."""
        ending = Ending("finished", exited=True)
        if status or not lifetime.may_exit:
            error = f"it exited by itself with exit status {status & 0xFF}"
            self._note_end(error, stack)  # also between two runs, or if no message gets through
            ending = Ending("failed", error=error)
        self._report_end(ending, stack)

    def _report_end(self, ending: Ending, stack: str) -> None:
        if (run := current()) is None:
            return
        trace = _from_user(stack, run) if ending.error else ""
        self._finish(run, replace(ending, iteration=run.iteration, traceback=trace, gone=True))
        self._wait_while(lambda: not run.log.settled)

    def _wait_while(self, condition: Callable[[], bool]) -> None:
        """Let the channel work for at most a second."""
        if threading.current_thread() is threading.main_thread():
            self._channel.ring()
        deadline = time.monotonic() + 1.0
        while condition() and time.monotonic() < deadline:
            time.sleep(0.005)

    def _cut_off(self, trace: str) -> None:
        """End this rank, which has lost its connection, and write the error to its crash file."""
        lines = trace.rstrip().splitlines()
        error = f"Fatal error: its thread for the supervisor's connection ended ({lines[-1]})"
        self._note_end(error, trace)
        os.kill(os.getpid(), signal.SIGKILL)

    def _note_end(self, error: str, stack: str) -> None:
        """Write why this rank ends to its crash file, innermost call first."""
        frames = [line for line in stack.splitlines() if line.lstrip().startswith("File ")]
        with contextlib.suppress(OSError, ValueError):  # a cell may have closed it
            self._crash_file.write("\n".join([error, *reversed(frames)]))
            self._crash_file.flush()

    def _pulse(self, name: str) -> Pulse:
        run = current()
        if run is None or run.log.run != name:
            executing, executed = self._soundness.measure_use()
            is_idle = run is None and not executing
            return Pulse(name, self.number, 0, idle=is_idle, executing=executing, executed=executed)
        call, since = watch.call, watch.since
        done = run.boundaries
        place = self._sampler.look(run.source_name, done.count, done.seconds)
        call, seconds = (call, time.perf_counter() - since) if call else (place.call, place.still)
        return Pulse(
            name,
            self.number,
            run.boundaries.count,
            run.boundaries.measure(),
            call,
            seconds,
            place.line,
            place.doing,
            place.still,
            self._traffic.measure() if call and seconds >= LONG_SECONDS else 0.0,
        )


def _place(world: MPI.Intracomm) -> tuple[list[int], int, str]:
    """Return each rank's machine, the node's lowest rank, and rank 0's host; collective.

    Simulated nodes share their machine's devices, and so its local ranks.
    """
    machine, node = world.Split_type(MPI.COMM_TYPE_SHARED), node_of(world)
    machines = world.allgather(machine.bcast(world.rank))
    alone = machine.size == world.size
    leader = node.bcast(world.rank)
    machine.Free()
    node.Free()
    host = world.bcast(_head() or socket.gethostname())
    return machines, leader, LOOPBACK if alone else str(host)


def _head() -> str:
    """Return the address of rank 0's host for other hosts; empty on one machine."""
    return os.environ.get("WORKBENCH_HEAD", "")


def _free_ports(world: MPI.Intracomm) -> tuple[int, ...]:
    """Choose unused ports of rank 0's host; collective over ``world``."""
    found: list[int] = []
    while world.rank == 0 and len(found) < PORTS:
        port = random.SystemRandom().randrange(*PORT_RANGE)
        with contextlib.suppress(OSError), socket.socket() as probe:
            probe.bind(("", port))
            found.append(port)
    return tuple(world.bcast(found))


def _from_user(stack: str, run: RunContext) -> str:
    """Drop the frames above the user's source from a formatted stack."""
    marker = f'  File "{run.source_name}"'
    start = stack.find(marker)
    return "Traceback (most recent call last):\n" + (stack[start:] if start >= 0 else stack)


def _watch_for_crashes(folder: Path, generation: int, rank: int) -> TextIO:
    """Make a segmentation fault write its Python stack to a file of this rank."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    path = folder / f"crash-{generation}-{rank}.txt"
    file = open(path, "w", opener=owners_only)  # noqa: SIM115  # for as long as the rank lives
    faulthandler.enable(file, all_threads=False)
    return file


class HostTraffic:
    """The traffic of all interfaces of this host, loopback included."""

    def __init__(self) -> None:
        self._last = (time.monotonic(), 0)

    def measure(self) -> float:
        """Return bytes per second since the last call, both ways together; 0 if unknown."""
        now, total = time.monotonic(), _total()
        (moment, before), self._last = self._last, (now, total)
        return max(0, total - before) / max(now - moment, 1e-3) if before else 0.0


def _total() -> int:
    try:
        lines = INTERFACES.read_text(encoding="utf-8").splitlines()[2:]
    except OSError:
        return 0
    # <https://docs.kernel.org/filesystems/proc.html>: bytes received are 1st, those sent are 9th.
    rows = [line.partition(":")[2].split() for line in lines]
    return sum(int(row[0]) + int(row[8]) for row in rows if len(row) > 8)


class RankHealth:
    """Whether this rank can run another cell.

    Args:
        shell: The engine's IPython shell; None outside of an engine.
    """

    def __init__(self, shell: Any = None) -> None:
        self._shell = shell
        self._kernel = getattr(shell, "kernel", None)
        self._begun = time.monotonic()  # the engine is executing what makes this
        self._ended: float | None = None
        self._is_busy = self._is_own = True
        self._is_terminated = False
        self._needed = [name for name in _NEEDED if name in sys.modules]
        self._seconds = resource.getrlimit(resource.RLIMIT_CPU)[1]
        terminate = signal.getsignal(signal.SIGTERM)
        if callable(terminate):
            signal.signal(signal.SIGTERM, self._noting(terminate))
        if self._kernel is not None:
            shell.ask_exit = self._leave_cell
            self._kernel.pre_handler_hook = self._around(self._kernel.pre_handler_hook, busy=True)
            self._kernel.post_handler_hook = self._around(
                self._kernel.post_handler_hook, busy=False
            )

    def measure_use(self) -> tuple[float, float | None]:
        """Return for how long the engine has executed something, or 0, and how long ago it did.

        What the supervisor calls does not count afterwards. For other threads.
        """
        now, ended = time.monotonic(), self._ended
        executing = max(1e-3, now - self._begun) if self._is_busy else 0.0
        return executing, None if ended is None else now - ended

    def note_own(self) -> None:
        """Note that what the engine executes is none of a user's."""
        self._is_own = True

    def flaw(self) -> str:
        """Return why this rank can run no other cell, a clause; empty if it can."""
        try:
            return self._flaw()
        except Exception as error:  # noqa: BLE001  # whatever a cell has left there
            return f"nothing can be executed there ({type(error).__name__}: {error})"

    def _flaw(self) -> str:
        if lifetime.is_ended or MPI.Is_finalized():
            return "MPI was ended there by MPI.Finalize()"
        if self._is_terminated:
            return "SIGTERM came there, which ends the process"
        if self._kernel is not None:
            loop = self._kernel.io_loop.asyncio_loop
            if loop.is_closed() or getattr(loop, "_stopping", False) or self._shell.exit_now:
                return "the event loop of its engine was stopped"
            if self._kernel.shell_stream.closed():
                return "the sockets of its engine were closed"
        if self._seconds != resource.getrlimit(resource.RLIMIT_CPU)[1]:
            return "its limit on processor time was lowered"
        if gone := [name for name in self._needed if sys.modules.get(name) is None]:
            return f"the module {gone[0]} was removed there"
        try:
            os.close(os.open(os.devnull, os.O_RDONLY))
            open(os.devnull, encoding="utf-8").close()
            exec("None", {})
        except Exception as error:  # noqa: BLE001  # an audit hook raises anything
            return f"no file can be opened there ({type(error).__name__}: {error})"
        return ""

    def _noting(self, terminate: Callable[..., Any]) -> Callable[..., Any]:
        def note(number: int, frame: FrameType | None) -> None:
            self._is_terminated = True
            terminate(number, frame)

        return note

    def _around(self, hook: Callable[[], None], *, busy: bool) -> Callable[[], None]:
        def note() -> None:
            now = time.monotonic()
            if busy:
                self._begun, self._is_own = now, False
            elif not self._is_own:
                self._ended = now
            self._is_busy = busy
            hook()

        return note

    def _leave_cell(self) -> NoReturn:
        """End the cell, as in a script: quit() in a notebook is to end no process of a cluster."""
        status, self._shell.keepkernel_on_exit = self._shell.keepkernel_on_exit, None
        print("quit() ends the cell here; the ranks stay, until `%dist_delete`.")
        raise SystemExit(status if type(status) is int else None)
