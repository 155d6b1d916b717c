"""Provide nodes: this machine, hosts over ssh, EC2, and the rehearsal of EC2."""
