"""Write to streams that were bound before, by lines, halves of lines, bytes and a logger."""

import logging
import sys
from sys import __stdout__ as bound

assert bound is not None
print("first")
bound.write("half ")
sys.stdout.write("a line ")
bound.buffer.write(b"of bytes\n")
logging.StreamHandler(sys.stdout).emit(logging.makeLogRecord({"msg": "logged"}))
