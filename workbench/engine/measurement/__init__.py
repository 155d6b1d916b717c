"""Measure links, exchanges, disks and devices; each for a bounded time."""
