"""The form that sizes a cluster."""
