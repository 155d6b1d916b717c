import math
import multiprocessing

with multiprocessing.get_context("spawn").Pool(2) as pool:
    print(pool.map(math.sqrt, [0, 1, 4]))
