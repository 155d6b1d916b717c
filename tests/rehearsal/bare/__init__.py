"""Machines with their own disks, which boot a bare Debian."""
