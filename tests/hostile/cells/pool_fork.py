import multiprocessing


def square(x):
    return x * x


with multiprocessing.get_context("fork").Pool(2) as pool:
    print(pool.map(square, range(4)))
