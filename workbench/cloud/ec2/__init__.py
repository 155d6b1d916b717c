"""EC2: spot and on-demand instances, and all that an account must have for them."""
