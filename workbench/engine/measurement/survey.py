"""Measure links, exchanges and nodes step by step, with a boundary between two steps."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from typing import Any

from mpi4py import MPI

from workbench.core.performance.bandwidth import (
    RESULT_STREAM,
    BandwidthSurvey,
    Exchange,
    Measurement,
    Pair,
    Rate,
    measurement_json,
    tournament,
)
from workbench.core.run.rank_protocol import Progress
from workbench.engine.measurement import nodes
from workbench.engine.measurement.exchanges import ExchangeLimits, Exchanges
from workbench.engine.measurement.links import measure_pair
from workbench.engine.measurement.node_emulation import host_name, node_of
from workbench.engine.measurement.repetition import gather_here
from workbench.engine.run_context import RunContext


def measure(run: RunContext, comm: MPI.Intracomm, **options: Any) -> None:
    """Measure on all ranks of ``comm``, and report the result on rank 0.

    Args:
        options: Arguments of ``SurveyRun``.
    """
    measuring = SurveyRun(run, comm, **options)
    found = measuring.run()
    if found is not None:
        run.log.write(RESULT_STREAM, measurement_json(found))


class SurveyRun:
    """One measurement; creation is collective.

    Args:
        rating: The nodes' rated Gbit/s; 0 if unknown.
        burst: Their Gbit/s for short times; 0 if unknown.
        flow: Gbit/s limit of one connection; 0 for no limit.
        source: The nodes' data source; empty for none.
        limits: The limits for exchanges.
    """

    def __init__(
        self,
        run: RunContext,
        comm: MPI.Intracomm,
        *,
        rating: float = 0.0,
        burst: float = 0.0,
        flow: float = 0.0,
        source: str = "",
        limits: ExchangeLimits | None = None,
    ) -> None:
        self._run, self._comm = run, comm
        self._gbits = (rating, burst, flow)
        self._sockets = 1
        self._source = source
        self._limits = limits or ExchangeLimits()
        self._begun = time.time()
        self._node = node_of(comm)
        leads = self._node.rank == 0
        self._leaders = comm.Split(0 if leads else MPI.UNDEFINED, comm.rank)
        self._places = _names(comm.allgather(host_name() if leads else None))
        self._name = self._places[self._node.bcast(self._leaders.rank if leads else 0)]
        self._pairs: list[Pair] = []
        self._rates: list[Rate] = []
        self._exchanges: list[Exchange] = []
        self._left_out: list[str] = []

    def run(self) -> Measurement | None:
        """Measure; return the result on rank 0, and None elsewhere."""
        steps = [*self._steps()]
        for number, (title, step) in enumerate(steps, 1):
            if self._comm.rank == 0:
                print(f"{number} of {len(steps)}: {title}")
            step()
            gather_here(self._comm)
            self._pass_step(number, len(steps))
        return self._gather_result()

    def _steps(self) -> Iterator[tuple[str, Any]]:
        rounds = tournament(len(self._places)) if len(self._places) > 1 else ()
        for number, pairs in enumerate(rounds, 1):
            title = f"links between nodes, round {number} of {len(rounds)}"
            yield title, lambda pairs=pairs: self._links(pairs)
        yield "between ranks of a node", self._within
        if self._comm.size > 1:
            exchanges = Exchanges(self._comm, self._limits)
            for size in exchanges.sizes:
                title = f"allreduce of {size:,} bytes"
                yield title, lambda size=size: self._reduce(exchanges, size)
        yield "disks and devices", self._own

    def _links(self, pairs: tuple[tuple[int, int], ...]) -> None:
        """Measure pairs of ranks simultaneously, each in both directions."""
        if self._leaders == MPI.COMM_NULL:
            return
        place = self._leaders.rank
        mine = next((ends for ends in pairs if place in ends), None)
        colour = pairs.index(mine) if mine else MPI.UNDEFINED
        for first in (0, 1):
            # Rank 0 of the two is the sender.
            key = 0 if mine and mine[first] == place else 1
            pair = self._leaders.Split(colour, key)
            if mine is None:
                continue
            way = measure_pair(pair)
            pair.Free()
            self._sockets = way.sockets
            if key == 0:
                ends = self._places[place], self._places[mine[1 - first]]
                self._pairs.append(Pair(*ends, way.latency, way.bandwidth))

    def _within(self) -> None:
        self._rates += nodes.between_ranks(self._node, self._name)

    def _reduce(self, exchanges: Exchanges, size: int) -> None:
        for way in range(len(exchanges.ways)):
            if (found := exchanges.measure(size, way)) is not None:
                self._exchanges.append(found)
        self._left_out += exchanges.left_out
        exchanges.left_out.clear()

    def _own(self) -> None:
        if self._node.rank == 0:
            self._rates += nodes.devices(self._name)
            try:
                self._rates += nodes.disk(self._name, os.getcwd())
            except OSError as error:
                self._left_out.append(f"The disk of {self._name}: {error.strerror}.")
        if self._source and self._comm.rank == 0:
            self._read_source()
        rates, obstacle = nodes.nccl(self._comm, self._node.rank)
        if self._comm.rank == 0:
            self._rates += rates
            self._left_out += [f"NCCL: {obstacle}."] if obstacle else []

    def _read_source(self) -> None:
        if "://" in self._source:
            self._left_out.append(f"The staging source {self._source}: only folders are read.")
            return
        found = nodes.source(self._name, self._source)
        if not found:
            self._left_out.append(f"The staging source {self._source} has no files here.")
        self._rates += found

    def _pass_step(self, done: int, total: int) -> None:
        run = self._run
        run.iteration = done
        run.log.progress = Progress(done, total)
        run.boundaries.passed()
        run.boundaries.check()

    def _gather_result(self) -> Measurement | None:
        pairs = self._comm.gather(self._pairs)
        rates = self._comm.gather(self._rates)
        left_out = self._comm.gather(self._left_out)
        sockets = self._comm.allreduce(self._sockets, MPI.MAX)
        if pairs is None or rates is None or left_out is None:
            return None
        survey = BandwidthSurvey(
            time=self._begun,
            nodes=self._places,
            pairs=tuple(one for several in pairs for one in several),
            exchanges=tuple(self._exchanges),
            rating=1e9 / 8 * self._gbits[0],
            burst=1e9 / 8 * self._gbits[1],
            flow=1e9 / 8 * self._gbits[2],
            sockets=sockets,
        )
        return Measurement(
            survey=survey,
            ranks=self._comm.size,
            seconds=time.time() - self._begun,
            rates=tuple(one for several in rates for one in several),
            left_out=tuple(dict.fromkeys(one for several in left_out for one in several)),
        )


def _names(hosts: list[str | None]) -> tuple[str, ...]:
    """Return a unique name for each node."""
    found: list[str] = []
    for host in hosts:
        if host is not None:
            number = sum(name.partition("#")[0] == host for name in found)
            found.append(f"{host}#{number + 1}" if number else host)
    return tuple(found)
