"""Lend nodes: this machine, hosts that answer to ssh, EC2 spot instances, and a rehearsal of it."""
