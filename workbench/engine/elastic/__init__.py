"""Loops that are written by hand: their state, where a step ends, and what each rank reads."""
