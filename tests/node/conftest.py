"""Nodes whose agents can be asked."""

from tests.cloud.conftest import hosts, possible

__all__ = ["hosts", "possible"]
