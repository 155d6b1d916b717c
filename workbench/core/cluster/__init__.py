"""A cluster's desired and observed state, its worlds and its spending."""
