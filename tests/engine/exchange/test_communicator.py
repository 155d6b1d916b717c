"""One contract for all algorithms and codecs, held against an exact reference on 1 to 4 ranks."""

from __future__ import annotations

import pytest

from .contract import EXACT, READY

pytestmark = [pytest.mark.mpi, pytest.mark.contract]

EITHER = pytest.mark.either_mpi
SIZES = pytest.mark.parametrize(
    "size", [1, 2, 3, pytest.param(4, marks=EITHER)], ids="{} ranks".format
)


@SIZES
def test_means_are_exact_and_have_the_same_bits_on_all_ranks(on_shared_ranks, size) -> None:
    for mine in on_shared_ranks(EXACT, size):
        assert mine["wrong"] == []


CODED = (
    READY
    + """
random = np.random.RandomState(rank)
SHAPES = [(300, 200), (40_001,), (9,)]
truth = [np.random.RandomState(7).randn(*shape).astype("f4") for shape in SHAPES]
for codec in Codec:
    for overlap in (False, True):
        comm = make("auto", compress=str(codec), overlap=overlap)
        total = [np.zeros_like(t) for t in truth]
        wanted, alike = [np.zeros_like(t) for t in truth], True
        for step in range(30):
            gradients = [t + 0.5 * random.randn(*t.shape).astype("f4") for t in truth]
            wanted = [a + b for a, b in zip(wanted, exact(gradients))]
            got = means_of(comm, gradients)
            alike &= same_on_all(got)
            total = [a + b for a, b in zip(total, got)]
        errors = [float(np.linalg.norm(a - t) / np.linalg.norm(t)) for a, t in zip(total, wanted)]
        found[f"{codec} {overlap}"] = [alike, max(errors), comm.exchanger.tally.nbytes]
"""
)


@pytest.mark.parametrize(
    "size",
    [1, pytest.param(2, marks=EITHER), 3, pytest.param(4, marks=pytest.mark.weekly)],
    ids="{} ranks".format,
)
def test_what_a_codec_loses_comes_back_and_all_ranks_have_the_same_bits(
    on_shared_ranks, size
) -> None:
    for mine in on_shared_ranks(CODED, size):
        for what, (alike, error, _) in mine.items():
            assert alike, what
            assert error < (0.95 if what.startswith(("topk", "powersgd")) else 1e-3), what


def test_compressed_gradients_take_fewer_bytes(on_shared_ranks) -> None:
    mine = on_shared_ranks(CODED, 2)[0]

    sent = {what.split()[0]: nbytes for what, (_, _, nbytes) in mine.items()}
    assert sent["fp16"] < 0.6 * sent["none"]
    assert sent["bf16"] < 0.6 * sent["none"]
    assert sent["int8"] < 0.3 * sent["none"]
    assert sent["topk"] < 0.1 * sent["none"]  # the first hundred steps send more
    assert sent["powersgd"] < 0.5 * sent["none"]


STRANGE = (
    READY
    + """
comm = make("auto")
base = np.arange(40_000, dtype="f4").reshape(200, 200) + rank
shared = np.full(20_000, rank + 1.0, "f4")
readonly = np.broadcast_to(np.float32(rank + 1), (150, 100))
gradients = [base.T, shared, shared, readonly, base[::2, ::2], np.zeros((5, 5), "f4").T + rank]
wanted = exact(gradients)
for step in range(2):
    got = means_of(comm, [base.T.copy(order="K").view(), *gradients[1:]] if step else gradients)
    if step == 0:
        found["means"] = all(np.array_equal(a, b) for a, b in zip(wanted, got))
        found["alike"] = same_on_all(got)
        base[:] = np.arange(40_000, dtype="f4").reshape(200, 200) + rank
        shared[:] = rank + 1
"""
)


def test_views_shared_and_read_only_gradients_are_averaged_once(on_shared_ranks) -> None:
    for mine in on_shared_ranks(STRANGE, 2):
        assert mine == {"means": True, "alike": True}


ERRORS = (
    READY
    + """
def said(gradients, names=None, shapes=None, before=(), **options):
    comm = make("auto", **options)
    for some in before:
        means_of(comm, [g.copy() for g in some])
    try:
        means_of(comm, gradients, names, shapes)
    except WorkbenchError as error:
        return str(error)
    return "nothing"

ones = lambda *shape: np.ones(shape, "f4")
last = rank == size - 1
usual = [ones(9), ones(50_000)]
WAYS = {"plain": {}, "overlap": {"overlap": True}, "int8": {"compress": "int8"}}
for name, options in WAYS.items():
    nan = [ones(9), ones(50_000)]
    if last:
        nan[1][49_999] = np.nan
    found[f"nan {name}"] = said(nan, ["/a", "/b"], before=[usual], **options)
    small = [ones(9), ones(50_000)]
    if last:
        small[0][0] = np.inf
    found[f"inf {name}"] = said(small, ["/a", "/b"], **options)
    none = [ones(9), None if last else ones(50_000)]
    found[f"none {name}"] = said(none, None, [(9,), (50_000,)], before=[usual], **options)
    shape = [ones(9), ones(2, 25_000) if last else ones(50_000)]
    found[f"shape {name}"] = said(shape, before=[usual], **options)
    kind = [ones(9), ones(50_000).astype("f8" if last else "f4")]
    found[f"type {name}"] = said(kind, **options)
    order = ["/b", "/a"] if last else ["/a", "/b"]
    found[f"order {name}"] = said([ones(9), ones(9)], order, **options)
    lacks = ["/a", "/c"] if last else ["/a", "/b"]
    found[f"name {name}"] = said(usual, lacks, **options)
    found[f"all {name}"] = said([ones(9), ones(60_000)], before=[usual], **options)
    found[f"integer {name}"] = said([np.ones(9, "i4")], **options)
"""
)


@pytest.mark.parametrize("size", [pytest.param(2, marks=EITHER), 3])
def test_what_is_amiss_is_said_alike_on_all_ranks_with_rank_and_parameter(
    on_shared_ranks, size
) -> None:
    all_found = on_shared_ranks(ERRORS, size)

    last = size - 1
    for mine in all_found:
        assert mine == all_found[0]
        for how in ("plain", "overlap", "int8"):
            assert f"The gradient of /b on rank {last} is not finite" in mine[f"nan {how}"]
            assert f"The gradient of /a on rank {last} is not finite" in mine[f"inf {how}"]
            assert f"Rank {last} has no gradient for /1" in mine[f"none {how}"]
            assert "/1 has shape (2, 25000) on rank" in mine[f"shape {how}"] or size == 2
            assert "float64" in mine[f"type {how}"]
            assert "float32" in mine[f"type {how}"]
            assert f"Rank {last} has its parameters in another order" in mine[f"order {how}"]
            assert "rank 0 has not" in mine[f"name {how}"] or "has not" in mine[f"name {how}"]
            assert mine[f"all {how}"] == "nothing"
            assert "type int32" in mine[f"integer {how}"]


MEMORY = (
    READY
    + """
for codec in ("none", "fp16", "bf16", "int8"):
    for overlap in (False, True):
        comm = make("auto", compress=codec, overlap=overlap)
        gradients = [np.ones(400_000, "f4"), np.ones((300, 500), "f4"), np.ones(77, "f4")]
        for step in range(3):
            means_of(comm, gradients)
        tracemalloc.start()
        before = tracemalloc.get_traced_memory()[0]
        tracemalloc.reset_peak()
        means_of(comm, gradients)
        found[f"{codec} {overlap}"] = tracemalloc.get_traced_memory()[1] - before
        tracemalloc.stop()
"""
)


def test_a_step_takes_no_new_memory(on_shared_ranks) -> None:
    for mine in on_shared_ranks(MEMORY, 2):
        for how, nbytes in mine.items():
            assert nbytes < 100_000, how  # of 2.2 MB that are exchanged


REVOKED = (
    READY
    + """
comm = make("auto", overlap=True)
means_of(comm, [np.ones(400_000, "f4")])
real.Barrier()
if rank == 0:
    time.sleep(0.3)
    worlds.revoke()
else:
    try:
        means_of(comm, [np.ones(400_000, "f4")])
    except MPI.Exception as error:
        found["echo"] = is_echo(error)
worlds.recover()
comm_world = worlds.offer(0)
found["fresh"] = float(means_of(make("auto"), [np.full(400_000, rank + 1, "f4")])[0][0])
found["seconds"] = watch.seconds > 0.2
"""
)


def test_a_rank_that_waits_for_gradients_is_freed_when_another_fails(on_ranks, ulfm) -> None:
    failed, waiting = on_ranks(REVOKED, 2)

    assert waiting["echo"]
    assert waiting["seconds"]
    assert failed["fresh"] == waiting["fresh"] == 1.5
