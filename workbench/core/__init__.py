"""Decisions and arithmetic: values in, values out; no I/O and no clock."""
