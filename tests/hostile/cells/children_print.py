import ctypes
import os
import subprocess

os.write(1, b"from write\n")
subprocess.run(["echo", "from subprocess"], check=True)
os.system("echo from system")
libc = ctypes.CDLL(None)
libc.puts(b"from libc")
libc.fflush(None)
if (child := os.fork()) == 0:
    print("from fork", flush=True)
    os._exit(0)
os.waitpid(child, 0)
