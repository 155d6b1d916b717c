import multiprocessing
from concurrent.futures import ProcessPoolExecutor


def square(x):
    return x * x


with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("fork")) as pool:
    print(list(pool.map(square, range(4))))
