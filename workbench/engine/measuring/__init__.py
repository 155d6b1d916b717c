"""Measure what joins the ranks: links, exchanges, disks, devices; each for a bounded time."""
