"""A cell that prints the names of the variables that have keys of a connection in them."""

import os

print([name for name, value in os.environ.items() if "curve" in value])
