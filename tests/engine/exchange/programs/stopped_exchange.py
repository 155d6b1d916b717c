"""Execute a cell whose exchange is stopped, and the next one, three times on ranks that are nodes.

``… ENDPOINT KEY overlap|plain SOCKETS``: a file ``word STOP`` of the test's lets the ranks recover.
"""

from __future__ import annotations

import os
from pathlib import Path

import psutil

from tests.engine.exchange.programs.nodes import be_a_node
from tests.engine.programs.joined import arguments, found, rank, run, stay, wait_for_word

CELLS = Path(__file__).parent / "cells"

be_a_node(rank.number, int(arguments[1]))
os.environ["OVERLAP"] = str(int(arguments[0] == "overlap"))
for stop in "abc":
    run(f"260101-000000-stp{stop}", (CELLS / "hanging.py").read_text())
    wait_for_word(f"word {stop}")
    found[f"recovered {stop}"] = rank.recover()
    run(f"260101-000000-nxt{stop}", (CELLS / "following.py").read_text())
    found[f"open {stop}"] = len(psutil.Process().net_connections("tcp"))

stay()
