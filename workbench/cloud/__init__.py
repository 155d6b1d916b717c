"""Provide nodes: this machine, hosts over ssh, EC2 spot instances, and the rehearsal of EC2."""
