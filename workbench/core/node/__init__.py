"""The messages between supervisor and nodes, and the requirements on a node."""
