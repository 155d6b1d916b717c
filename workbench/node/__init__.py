"""What runs on every node beside the ranks: agent, lease, notices, data and output."""
