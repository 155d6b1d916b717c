"""Run on every node: watch its ranks, tell what it is, and end it when nobody asks for it."""
