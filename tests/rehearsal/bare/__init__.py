"""Machines with a disk of their own, on which Debian boots and nothing is installed yet."""
