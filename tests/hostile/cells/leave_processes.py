import os
import subprocess
import sys

subprocess.Popen(["sleep", "987"])
subprocess.Popen(["sleep", "987"], start_new_session=True)
if (child := os.fork()) == 0:
    os.execv(sys.executable, [sys.executable, "-c", "import time; time.sleep(987)"])
