"""Iterate in child processes: ``iterate.py fork|spawn|forkserver``."""

import multiprocessing
import sys

import numpy as np

if __name__ == "__main__":
    assert "workbench.compat.finder" in sys.modules
    multiprocessing.set_start_method(sys.argv[1])
    from chainer.iterators import MultiprocessIterator

    data = [np.full(3, i, np.float32) for i in range(8)]
    iterator = MultiprocessIterator(data, 4, repeat=False, shuffle=False, n_processes=2)
    print([int(x[0]) for batch in iterator for x in batch])
    iterator.finalize()
