"""Provides nodes that are Slurm's: jobs with one agent on each node."""
