"""Write past ``print`` in every way: by the descriptor, from programs, from C and from a fork."""

import ctypes
import multiprocessing
import os
import subprocess
import sys

print("first")
os.write(1, b"from write\n")
print("second")
subprocess.run(["echo", "from subprocess"], check=False)
subprocess.run(["echo", "from its own stdout"], stdout=sys.stdout, check=False)
os.system("echo from system")
ctypes.CDLL(None).printf(b"from libc\n")
sys.stdout.buffer.write(b"from the buffer\n")
p = multiprocessing.get_context("fork").Process(target=print, args=("from fork",))
p.start()
p.join()
print("last")
