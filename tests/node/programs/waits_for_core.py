"""A module whose import takes long by the clock, and little of a processor."""

import time

time.sleep(0.3)
