import math
import multiprocessing

with multiprocessing.get_context("forkserver").Pool(2) as pool:
    print(pool.map(math.sqrt, [0, 1, 4]))
