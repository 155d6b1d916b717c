"""A cell that makes its engine hostile: it answers each call by a pickle that writes a file."""

import os
import pickle

from ipyparallel.engine import kernel


class Evil:
    def __reduce__(self):
        return os.system, (f"touch {os.environ['WRITES']}",)


def answer(*arguments, **options):
    return [pickle.dumps(Evil()), *((b"true".ljust(4096),) if os.environ["WITH"] == "data" else ())]


kernel.serialize_object = answer
