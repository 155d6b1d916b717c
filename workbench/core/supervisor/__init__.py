"""A supervisor's heartbeat and its log."""
