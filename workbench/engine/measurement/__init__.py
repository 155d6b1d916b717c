"""Measure links, exchanges, disks and devices, each with a time limit."""
