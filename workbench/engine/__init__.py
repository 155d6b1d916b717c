"""What runs on every rank: executes cells, reports, stops at boundaries, recovers from failures."""
