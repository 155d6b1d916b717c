"""Loops that are written by hand: where a step ends, and what each rank reads."""
