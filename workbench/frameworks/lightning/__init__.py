"""Lightning: the values that it logs, and its launchers."""
