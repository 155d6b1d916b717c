"""Move data to the nodes, and the output of runs back."""
