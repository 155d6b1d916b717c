"""Let go of an object whose end is an effect, and fork."""

import gc
import os


class Group:
    """Ends as PyTorch's, which waits for threads that only its own process has."""

    def __del__(self) -> None:
        print("ended in", "the child" if os.getpid() != rank else "the rank", flush=True)


rank = os.getpid()
gc.disable()
group = Group()
vars(group)["itself"] = group
del group
if not (child := os.fork()):
    gc.collect()
    os._exit(0)
os.waitpid(child, 0)
gc.collect()
