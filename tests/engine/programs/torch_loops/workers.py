"""Compute by processes that train nothing together."""

import torch.multiprocessing as mp


def work(index, numbers):
    numbers[index] = index + 1


numbers = mp.get_context("fork").Array("i", 3)
mp.start_processes(work, args=(numbers,), nprocs=3, start_method="fork")
print("worked", sum(numbers))
