"""Hosts over ssh, and this machine: sessions, checks, and whether a host is still there."""
