"""Fixtures: nodes with agents."""

from tests.cloud.conftest import hosts, possible

__all__ = ["hosts", "possible"]
