"""Map in a pool of workers and terminate one that sleeps: ``… fork|forkserver|spawn``."""

import multiprocessing
import sys
import time
from typing import Any


def double(x: int) -> int:
    return 2 * x


if __name__ == "__main__":
    context: Any = multiprocessing.get_context(sys.argv[3])
    with context.Pool(2) as pool:
        print(pool.map(double, [1, 2]))
    process = context.Process(target=time.sleep, args=(99,))
    process.start()
    process.terminate()
    process.join()
    print(process.exitcode)
