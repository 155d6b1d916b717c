"""Analysis of runs: step breakdown, verdicts, predictions, and a plan's inputs."""
