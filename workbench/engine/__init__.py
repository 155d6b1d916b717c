"""What runs on every rank: execute a cell, report, stop at a boundary, survive a failure."""
