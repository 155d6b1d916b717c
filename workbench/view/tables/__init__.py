"""Tables of runs, nodes, plans and measurements."""
